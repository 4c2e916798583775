// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.Arrays;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Objects;
import java.util.Set;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * Turns exceptions into text for the log and the database: of bounded length, and without characters that PostgreSQL rejects. No
 * other class turns an exception into text.
 */
public final class ErrorText {

    /** The longest message of an exception, in characters, in the log and in the table. */
    public static final int LONGEST_MESSAGE = 2_000;

    /** The longest stored error, in characters, with stack traces and causes. */
    public static final int LONGEST_STORED = 20_000;

    private static final int LONGEST_LINE = 500;
    private static final int MOST_FRAMES = 200;
    private static final int MOST_CAUSES = 20;
    private static final int MOST_SUPPRESSED = 5;

    /**
     * What a message could quote to forge a log line, to control a terminal or to reverse what it displays. Lines that begin with a
     * blank forge none.
     */
    private static final Pattern HARMFUL =
            Pattern.compile("[\\p{Cc}\\p{Zl}\\p{Zp}\\u202a-\\u202e\\u2066-\\u2069&&[^\\n\\t]]|\\n(?![ \\t])");

    private ErrorText() {}

    /** Returns the first {@code longest} characters of a text, with its length if it is longer; without NUL characters. */
    public static String bounded(String text, int longest) {
        String clean = text.indexOf('\0') < 0 ? text : text.replace('\0', ' ');
        if (clean.length() <= longest) {
            return clean;
        }
        // A surrogate pair must not be cut in half.
        int end = Character.isHighSurrogate(clean.charAt(longest - 1)) ? longest - 1 : longest;
        return clean.substring(0, end) + "... (%d characters)".formatted(clean.length());
    }

    /** Returns a text that forges no log line and controls no terminal. */
    private static String clean(String text) {
        return HARMFUL.matcher(text.replace("\r\n", "\n"))
                .replaceAll(found -> found.group().equals("\n") ? "\n\t" : "?");
    }

    /** Returns the text as {@code last_error} stores it. */
    public static String storable(String text) {
        return bounded(text, LONGEST_STORED);
    }

    /** Returns the exception with its stack trace and its causes, as {@code last_error} stores it. */
    public static String storable(Throwable failure) {
        var text = new StringWriter();
        try {
            loggable(failure).printStackTrace(new PrintWriter(text));
        } catch (Throwable e) {
            // Methods of the exception may throw anything, declared or not.
            text.append(unprintable(failure));
        }
        return storable(text.toString());
    }

    /** Returns class and message of the exception in one line. */
    public static String brief(Throwable failure) {
        return firstLine(describe(failure));
    }

    /** Returns the first line of a text, shortened for a log line. */
    public static String firstLine(String text) {
        return bounded(clean(text.lines().findFirst().orElse("")), LONGEST_LINE);
    }

    /**
     * Returns the exception for the log: the same one if it can be printed and all of its messages are short and harmless,
     * otherwise a copy with such messages and the same stack traces, causes and suppressed exceptions. A logger can print the copy
     * even if methods of the original throw.
     */
    public static Throwable loggable(Throwable failure) {
        try {
            return isBounded(failure, Collections.newSetFromMap(new IdentityHashMap<>()), 0)
                    ? failure
                    : new Shortened(failure, Collections.newSetFromMap(new IdentityHashMap<>()), 0);
        } catch (Throwable e) {
            // Methods of the exception throw.
            return new Shortened(failure);
        }
    }

    private static boolean isBounded(Throwable failure, Set<Throwable> seen, int depth) throws NoSuchMethodException {
        if (!seen.add(failure)) {
            return true;
        }
        Throwable cause = failure.getCause();
        Throwable[] suppressed = failure.getSuppressed();
        if (depth >= MOST_CAUSES
                || suppressed.length > MOST_SUPPRESSED
                || failure.toString().length() > LONGEST_MESSAGE
                || failure.getStackTrace().length > MOST_FRAMES
                || !isPrintable(failure)
                || (cause != null && !isBounded(cause, seen, depth + 1))) {
            return false;
        }
        for (Throwable one : suppressed) {
            if (!isBounded(one, seen, depth + 1)) {
                return false;
            }
        }
        return true;
    }

    /** Returns whether a logger can print the exception; throws what methods of the exception throw. */
    private static boolean isPrintable(Throwable failure) throws NoSuchMethodException {
        String message = failure.getMessage();
        String localized = failure.getLocalizedMessage();
        return (message == null || message.length() <= LONGEST_MESSAGE)
                && (localized == null || localized.length() <= LONGEST_MESSAGE)
                && (message == null || !HARMFUL.matcher(message).find())
                && (localized == null || !HARMFUL.matcher(localized).find())
                && !Arrays.asList(failure.getStackTrace()).contains(null)
                && isInherited(failure, PrintWriter.class)
                && isInherited(failure, PrintStream.class);
    }

    private static boolean isInherited(Throwable failure, Class<?> target) throws NoSuchMethodException {
        return failure.getClass().getMethod("printStackTrace", target).getDeclaringClass() == Throwable.class;
    }

    private static String describe(Throwable failure) {
        try {
            return bounded(clean(String.valueOf(failure.toString())), LONGEST_MESSAGE);
        } catch (Throwable e) {
            return unprintable(failure);
        }
    }

    private static String unprintable(Throwable failure) {
        return failure.getClass().getName() + ", which cannot be printed";
    }

    /** Replaces an exception that is too long for the log; its message names the original. */
    @SuppressWarnings("OverrideThrowableToString") // The stack trace must begin like that of the original.
    private static final class Shortened extends Exception {
        private static final long serialVersionUID = 1L;
        private final String text;

        /** Creates a replacement for an exception of which only the class can be printed. */
        Shortened(Throwable original) {
            super(null, null, false, false);
            this.text = unprintable(original);
        }

        Shortened(Throwable original, Set<Throwable> seen, int depth) {
            super(null, cause(original, seen, depth), true, true);
            this.text = describe(original);
            StackTraceElement[] stack = original.getStackTrace();
            setStackTrace(Arrays.stream(stack)
                    .filter(Objects::nonNull)
                    .limit(MOST_FRAMES)
                    .toArray(StackTraceElement[]::new));
            if (depth < MOST_CAUSES) {
                Throwable[] suppressed = original.getSuppressed();
                for (int i = 0; i < Math.min(suppressed.length, MOST_SUPPRESSED); i++) {
                    if (!seen.contains(suppressed[i])) {
                        addSuppressed(new Shortened(suppressed[i], seen, depth + 1));
                    }
                }
            }
        }

        private static @Nullable Throwable cause(Throwable original, Set<Throwable> seen, int depth) {
            seen.add(original);
            Throwable cause = original.getCause();
            return cause == null || depth >= MOST_CAUSES || seen.contains(cause)
                    ? null
                    : new Shortened(cause, seen, depth + 1);
        }

        @Override
        public String getMessage() {
            return text;
        }

        @Override
        public String toString() {
            return text;
        }
    }
}
