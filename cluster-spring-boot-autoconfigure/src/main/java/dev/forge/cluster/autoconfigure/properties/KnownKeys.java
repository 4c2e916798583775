// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.properties;

import java.lang.reflect.ParameterizedType;
import java.lang.reflect.RecordComponent;
import java.lang.reflect.Type;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.bind.DataObjectPropertyName;

/** Finds the key that somebody meant who has misspelt one: a pure function of the records of properties. */
public final class KnownKeys {

    private static final String PREFIX = "forge.cluster";

    /** Of names of that length one letter may be wrong. */
    private static final int LETTERS_PER_ERROR = 4;

    private KnownKeys() {}

    /**
     * Returns whether a key is one of the cluster.
     *
     * @param key with its prefix
     */
    public static boolean isOfCluster(String key) {
        return key.startsWith(PREFIX + ".");
    }

    /**
     * Returns a question or a list that helps to correct an unknown key.
     *
     * @param key with its prefix, for example {@code forge.cluster.worker.max-concurent-jobs}
     */
    public static String advice(String key) {
        List<String> elements = elements(key.substring(PREFIX.length() + 1));
        Type type = ClusterProperties.class;
        String path = PREFIX;
        for (String element : elements) {
            Map<String, Type> members = members(type);
            if (members.isEmpty()) {
                return "%s has no further keys.".formatted(path);
            }
            String found = same(element, members.keySet());
            if (found == null && !isMap(type)) {
                String near = nearest(element, members.keySet());
                if (near != null) {
                    return "Did you mean %s?".formatted(near);
                }
                String elsewhere = elsewhere(elements.get(elements.size() - 1));
                return elsewhere != null
                        ? "Did you mean %s?".formatted(elsewhere)
                        : "Known in %s: %s.".formatted(path, String.join(", ", members.keySet()));
            }
            type = found == null ? members.values().iterator().next() : Objects.requireNonNull(members.get(found));
            path += "." + (found == null ? element : found);
        }
        return "Known in %s: %s."
                .formatted(path, String.join(", ", members(type).keySet()));
    }

    /** Returns the elements of a key without indexes. */
    private static List<String> elements(String key) {
        return Arrays.stream(key.split("\\."))
                .map(each -> each.replaceAll("\\[.*", ""))
                .toList();
    }

    /** Returns the names of the members of a type with their types; of a map a single one, of any name. */
    private static Map<String, Type> members(Type type) {
        var members = new LinkedHashMap<String, Type>();
        Type content = content(type);
        if (content != null) {
            if (!isMap(type)) {
                return members(content);
            }
            members.put("*", content);
        } else if (type instanceof Class<?> raw && raw.isRecord()) {
            for (RecordComponent component : raw.getRecordComponents()) {
                members.put(DataObjectPropertyName.toDashedForm(component.getName()), component.getGenericType());
            }
        }
        return members;
    }

    private static boolean isMap(Type type) {
        return type instanceof ParameterizedType generic && generic.getRawType() == Map.class;
    }

    /** Returns the type of the values of a map or a collection; null for any other type. */
    private static @Nullable Type content(Type type) {
        if (type instanceof ParameterizedType generic
                && generic.getRawType() instanceof Class<?> raw
                && (raw == Map.class || Collection.class.isAssignableFrom(raw))) {
            Type[] arguments = generic.getActualTypeArguments();
            return arguments[arguments.length - 1];
        }
        return null;
    }

    private static @Nullable String same(String element, Collection<String> names) {
        return names.stream()
                .filter(name -> uniform(name).equals(uniform(element)))
                .findFirst()
                .orElse(null);
    }

    private static @Nullable String nearest(String element, Collection<String> names) {
        String wanted = uniform(element);
        return names.stream()
                .filter(name -> distance(wanted, uniform(name))
                        <= Math.max(1, Math.min(wanted.length(), uniform(name).length()) / LETTERS_PER_ERROR))
                .min(Comparator.comparingInt(name -> distance(wanted, uniform(name))))
                .orElse(null);
    }

    /** Returns the full keys with that last element; null if there is none. */
    private static @Nullable String elsewhere(String last) {
        var all = new ArrayList<String>();
        collect(PREFIX, ClusterProperties.class, all);
        List<String> found = all.stream()
                .filter(key -> uniform(key.substring(key.lastIndexOf('.') + 1)).equals(uniform(last)))
                .toList();
        return found.isEmpty() ? null : found.stream().collect(Collectors.joining(" or "));
    }

    private static void collect(String path, Type type, List<String> all) {
        members(type).forEach((name, member) -> {
            String key = path + "." + name;
            all.add(key);
            collect(key, member, all);
        });
    }

    private static String uniform(String element) {
        return element.replaceAll("[-_]", "").toLowerCase(Locale.ROOT);
    }

    /** Returns how many letters have to be inserted, removed, changed or exchanged with the next one. */
    static int distance(String one, String other) {
        int[][] costs = new int[one.length() + 1][other.length() + 1];
        for (int i = 0; i <= one.length(); i++) {
            for (int j = 0; j <= other.length(); j++) {
                if (i == 0 || j == 0) {
                    costs[i][j] = i + j;
                    continue;
                }
                int change = one.charAt(i - 1) == other.charAt(j - 1) ? 0 : 1;
                costs[i][j] =
                        Math.min(Math.min(costs[i - 1][j] + 1, costs[i][j - 1] + 1), costs[i - 1][j - 1] + change);
                if (i > 1
                        && j > 1
                        && one.charAt(i - 1) == other.charAt(j - 2)
                        && one.charAt(i - 2) == other.charAt(j - 1)) {
                    costs[i][j] = Math.min(costs[i][j], costs[i - 2][j - 2] + 1);
                }
            }
        }
        return costs[one.length()][other.length()];
    }
}
