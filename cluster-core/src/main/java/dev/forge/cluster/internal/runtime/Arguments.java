package dev.forge.cluster.internal.runtime;

import org.jspecify.annotations.Nullable;

/** Checks what callers of the API pass. */
public final class Arguments {

    private Arguments() {}

    /**
     * Demands a value.
     *
     * @param call the method of the API, for people: {@code Jobs.enqueue}
     * @throws IllegalArgumentException if it is null
     */
    public static void required(String call, String parameter, @Nullable Object value) {
        if (value == null) {
            throw new IllegalArgumentException("%s: %s must not be null".formatted(call, parameter));
        }
    }
}
