// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import dev.forge.cluster.PayloadCodec;
import dev.forge.cluster.internal.database.PrintedJson;
import java.lang.reflect.Type;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import org.springframework.util.ClassUtils;

/**
 * Writes and reads JSON that PostgreSQL can store: without NUL characters, without halves of surrogate pairs, and not larger than
 * configured when PostgreSQL prints it.
 */
public final class PayloadJson {

    private static final int UNICODE_ESCAPE = 6;

    /** How Jackson names the member at fault. */
    private static final Pattern REFERENCE_CHAIN = Pattern.compile("through reference chain: (.*)");

    private static final Pattern MEMBER = Pattern.compile("\\[\"([^\"]*)\"]|\\[(\\d+)]");

    private final PayloadCodec codec;
    private final int maxBytes;
    /** Types of which a written value could be read; their number is that of the handlers' parameter types. */
    private final Set<Type> readable = ConcurrentHashMap.newKeySet();

    /** @param maxBytes the largest size of a text when PostgreSQL prints it */
    public PayloadJson(PayloadCodec codec, int maxBytes) {
        this.codec = codec;
        this.maxBytes = maxBytes;
    }

    /**
     * Returns a value as JSON.
     *
     * @throws IllegalArgumentException if it cannot be stored, with the reason
     */
    public String write(@Nullable Object value) {
        String json;
        try {
            json = codec.write(value);
        } catch (RuntimeException e) {
            throw new IllegalArgumentException("cannot be written as JSON: " + e.getMessage(), e);
        }
        requireStorable(json);
        requireSize(json);
        return json;
    }

    /**
     * Checks the size of a text.
     *
     * @throws IllegalArgumentException if it is too large to be stored, with the reason
     */
    public void requireSize(String json) {
        long bytes = PrintedJson.requireBytes(json);
        if (bytes > maxBytes) {
            throw new IllegalArgumentException(
                    "has %d bytes when PostgreSQL prints it, forge.cluster.job.max-payload-size is %d; store large data elsewhere and pass a reference"
                            .formatted(bytes, maxBytes));
        }
    }

    /**
     * Checks JSON that a person has written.
     *
     * @throws IllegalArgumentException if it is not JSON or cannot be stored, with the reason
     */
    public void requireValid(String json) {
        requireStorable(json);
        try {
            codec.read(json, Object.class);
        } catch (RuntimeException e) {
            throw new IllegalArgumentException("is not JSON: " + firstLine(e), e);
        }
        requireSize(json);
    }

    /** Returns how many bytes a text may have when PostgreSQL prints it. */
    public int maxBytes() {
        return maxBytes;
    }

    @Nullable
    public Object read(String json, Type type) {
        return codec.read(json, type);
    }

    /**
     * Checks that a written value can be read as a type. Of values of exactly that class only the first one is read: reading each
     * of them would double the cost of enqueueing.
     *
     * @param value the value that was written
     * @param reader the handler that takes it, for the message
     * @throws IllegalArgumentException if it cannot be read, with the reason
     */
    public void requireReadable(@Nullable Object value, String json, Type type, String reader) {
        Type exact = type instanceof Class<?> raw ? ClassUtils.resolvePrimitiveIfNecessary(raw) : type;
        boolean sameClass = value != null && value.getClass() == exact;
        if (sameClass && readable.contains(exact)) {
            return;
        }
        try {
            codec.read(json, type);
            if (sameClass) {
                readable.add(exact);
            }
        } catch (RuntimeException e) {
            throw new IllegalArgumentException(
                    "cannot be read as %s, which %s takes: %s".formatted(type.getTypeName(), reader, firstLine(e)), e);
        }
    }

    // Further lines of Jackson's message give the position in the JSON, which the caller does not know, and the member.
    private static String firstLine(RuntimeException e) {
        String message = String.valueOf(e.getMessage());
        String first = message.lines().findFirst().orElse("");
        Matcher chain = REFERENCE_CHAIN.matcher(message);
        if (!chain.find()) {
            return first;
        }
        String path = MEMBER.matcher(chain.group(1))
                .results()
                .map(member -> member.group(1) != null ? member.group(1) : "[" + member.group(2) + "]")
                .collect(Collectors.joining("."))
                .replace(".[", "[");
        return path.isEmpty() ? first : "%s: %s".formatted(path, first);
    }

    /**
     * Reads JSON as a type that the caller knows: a class, which may be primitive, or a generic type.
     *
     * @param <T> that type
     */
    @SuppressWarnings({"unchecked", "TypeParameterUnusedInFormals"
    }) // The caller's class or type reference has this type.
    public <T> @Nullable T readAs(String json, Type type) {
        if (type instanceof Class<?> plain) {
            // int.class.cast rejects every value, Integer.class.cast does not.
            Class<?> boxed = ClassUtils.resolvePrimitiveIfNecessary(plain);
            return (T) boxed.cast(codec.read(json, boxed));
        }
        return (T) codec.read(json, type);
    }

    /**
     * Reads a recorded result.
     *
     * @param subject whose result it is, for the message
     * @throws IllegalArgumentException if it cannot be read as that type
     */
    public <T> Optional<T> readResult(String subject, String result, Type type) {
        try {
            return Optional.ofNullable(readAs(result, type));
        } catch (RuntimeException e) {
            throw new IllegalArgumentException(
                    "The result of %s cannot be read as %s: %s".formatted(subject, type.getTypeName(), e.getMessage()),
                    e);
        }
    }

    public Map<String, String> readTexts(String json) {
        var texts = new TreeMap<String, String>();
        if (!json.equals("{}") && codec.read(json, Map.class) instanceof Map<?, ?> map) {
            map.forEach((key, value) -> texts.put(String.valueOf(key), String.valueOf(value)));
        }
        return texts;
    }

    static void requireStorable(String json) {
        for (int i = 0; i < json.length(); i++) {
            char c = json.charAt(i);
            if (c == 0) {
                throw new IllegalArgumentException("holds a NUL character, which PostgreSQL cannot store");
            }
            if (Character.isSurrogate(c)) {
                i = requirePair(i, c, i + 1 < json.length() ? json.charAt(i + 1) : 0, 1);
            } else if (c == '\\' && i + 1 < json.length()) {
                i = json.charAt(i + 1) == 'u' ? requireEscape(json, i) : i + 1;
            }
        }
    }

    private static int requireEscape(String json, int at) {
        char c = escaped(json, at);
        if (c == 0) {
            throw new IllegalArgumentException("holds a NUL character, which PostgreSQL cannot store");
        }
        if (Character.isSurrogate(c)) {
            return requirePair(at, c, escaped(json, at + UNICODE_ESCAPE), UNICODE_ESCAPE) + UNICODE_ESCAPE - 1;
        }
        return at + UNICODE_ESCAPE - 1;
    }

    private static int requirePair(int at, char high, char low, int width) {
        if (!Character.isHighSurrogate(high) || !Character.isLowSurrogate(low)) {
            throw new IllegalArgumentException(
                    "holds half of a surrogate pair (at character %d), which PostgreSQL cannot store".formatted(at));
        }
        return at + width;
    }

    /** Returns the character of the escape at a position; a space if there is none. */
    private static char escaped(String json, int at) {
        if (at + UNICODE_ESCAPE > json.length() || json.charAt(at) != '\\' || json.charAt(at + 1) != 'u') {
            return ' ';
        }
        try {
            return (char) Integer.parseInt(json.substring(at + 2, at + UNICODE_ESCAPE), 16);
        } catch (NumberFormatException e) {
            return ' ';
        }
    }
}
