// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.handler;

import dev.forge.cluster.autoconfigure.properties.value.PropertyRules;
import dev.forge.cluster.internal.daemon.DaemonStore;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.internal.workflow.store.WorkflowVersion;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.Locale;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.springframework.beans.factory.config.ConfigurableBeanFactory;
import org.springframework.boot.convert.DurationStyle;
import org.springframework.util.PlaceholderResolutionException;

/**
 * Reads the text attributes of annotations: resolves placeholders, then parses the value. An invalid value is an {@link
 * IllegalArgumentException} of the form {@code attribute (value): reason}, to which the caller adds the place of the annotation.
 */
public final class AttributeReader {

    private final ConfigurableBeanFactory beans;

    public AttributeReader(ConfigurableBeanFactory beans) {
        this.beans = beans;
    }

    /** Returns the text with resolved placeholders; empty if the attribute is not set. */
    public String text(String attribute) {
        String resolved;
        try {
            resolved = beans.resolveEmbeddedValue(attribute);
        } catch (PlaceholderResolutionException e) {
            throw new AttributeException(
                    String.valueOf(e.getMessage()),
                    "Set the property %s, or give the placeholder a default: ${%1$s:default}."
                            .formatted(e.getPlaceholder()),
                    e);
        }
        return resolved == null ? "" : resolved.trim();
    }

    /** Like the above, but null if the attribute is not set. */
    @Nullable
    public String textOrNull(String attribute) {
        String text = text(attribute);
        return text.isEmpty() ? null : text;
    }

    /** Returns the name, by default that of the method in kebab case. */
    public String name(String attribute, Method method) {
        String text = text(attribute);
        String name = text.isEmpty() ? kebab(method.getName()) : text;
        requireName("name", name);
        requireFree("name", name);
        return name;
    }

    /** Returns an additional name under which jobs may be enqueued. */
    public String alias(String attribute) {
        String text = text(attribute);
        requireFree("aliases", text);
        return text;
    }

    /** Rejects a name that is reserved for the cluster. */
    private static void requireFree(String attribute, String name) {
        if (WorkflowVersion.isJobOfWorkflow(name)) {
            throw AttributeException.of(
                    attribute,
                    name,
                    "names that begin with %s are reserved for workflows".formatted(WorkflowVersion.JOB_PREFIX),
                    null);
        }
        if (DaemonStore.isDaemon(name)) {
            throw AttributeException.of(
                    attribute,
                    name,
                    "names that begin with %s are reserved for daemons".formatted(DaemonStore.PREFIX),
                    null);
        }
    }

    /** Rejects a name that is too long or not printable. */
    public static void requireName(String attribute, String text) {
        try {
            Names.require(attribute, text);
        } catch (IllegalArgumentException e) {
            throw new AttributeException(
                    String.valueOf(e.getMessage()), "Correct the attribute %s.".formatted(attribute), e);
        }
    }

    // A word begins with a capital after a small letter or a digit, and with the last of several capitals, unless these
    // are an acronym's plural: import-xml-file, parse-urls.
    public static String kebab(String method) {
        return method.replaceAll("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z](?!s(?![a-z]))[a-z])", "-")
                .toLowerCase(Locale.ROOT);
    }

    /**
     * Returns the text of an attribute that has a typed form and a text form, {@code maxAttempts} and {@code maxAttemptsString};
     * empty if neither is set.
     *
     * @param unset the typed default, which means that the attribute is not set
     * @throws AttributeException if both forms are set
     */
    public String either(String attribute, Object typed, Object unset, String text) {
        String resolved = text(text);
        if (typed.equals(unset)) {
            return resolved;
        }
        if (!resolved.isEmpty()) {
            throw AttributeException.of(
                    attribute, String.valueOf(typed), "%sString (%s) is also set".formatted(attribute, resolved), null);
        }
        return String.valueOf(typed);
    }

    /** Parses the text; returns the default if the attribute is not set. */
    public <T> T value(String attribute, String text, Function<String, T> reading, T usual) {
        String resolved = text(text);
        return resolved.isEmpty() ? usual : read(attribute, resolved, reading);
    }

    /** Like the above, for a default that may be null. */
    public <T> @Nullable T valueOrNull(String attribute, String text, Function<String, T> reading, @Nullable T usual) {
        String resolved = text(text);
        return resolved.isEmpty() ? usual : read(attribute, resolved, reading);
    }

    /** Parses a text without placeholders. */
    public static <T> T read(String attribute, String text, Function<String, T> reading) {
        try {
            return reading.apply(text);
        } catch (IllegalArgumentException e) {
            throw AttributeException.of(attribute, text, reason(e), e);
        }
    }

    private static @Nullable String reason(IllegalArgumentException e) {
        return e instanceof NumberFormatException ? "is not a number" : e.getMessage();
    }

    /** Parses a duration such as {@code 30s}. */
    public static Duration notNegative(String text) {
        Duration duration = parse(text);
        if (duration.isNegative()) {
            throw new IllegalArgumentException("must not be negative");
        }
        if (duration.compareTo(PropertyRules.LONGEST) > 0) {
            throw new IllegalArgumentException("must not be longer than a hundred years");
        }
        return duration;
    }

    private static Duration parse(String text) {
        try {
            return DurationStyle.detectAndParse(text);
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException("is not a duration such as 500ms, 30s, 5m, 2h, 1d or PT1H30M", e);
        }
    }

    /** Parses a duration of at least a millisecond. */
    public static Duration positive(String text) {
        Duration duration = notNegative(text);
        if (duration.isZero()) {
            throw new IllegalArgumentException("must be longer than zero");
        }
        if (duration.compareTo(PropertyRules.SHORTEST) < 0) {
            throw new IllegalArgumentException("must not be shorter than 1ms");
        }
        return duration;
    }

    /** Parses a whole number. */
    public static Function<String, Integer> atLeast(int least) {
        return between(least, Integer.MAX_VALUE);
    }

    /** Parses a whole number. */
    public static Function<String, Integer> between(int least, int most) {
        return text -> {
            int number = Integer.parseInt(text);
            if (number < least) {
                throw new IllegalArgumentException("must be at least " + least);
            }
            if (number > most) {
                throw new IllegalArgumentException("must be at most " + most);
            }
            return number;
        };
    }
}
