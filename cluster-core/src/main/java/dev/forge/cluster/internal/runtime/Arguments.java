package dev.forge.cluster.internal.runtime;

import org.jspecify.annotations.Nullable;

/** Checks the arguments of API calls. */
public final class Arguments {

    private Arguments() {}

    /**
     * Checks that an argument is not null.
     *
     * @param call the method of the API, such as {@code Jobs.enqueue}, for the message
     * @throws IllegalArgumentException if it is null
     */
    public static void required(String call, String parameter, @Nullable Object value) {
        if (value == null) {
            throw new IllegalArgumentException("%s: %s must not be null".formatted(call, parameter));
        }
    }
}
