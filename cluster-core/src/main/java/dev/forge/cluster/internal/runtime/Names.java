// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import java.util.Collection;
import java.util.List;

/**
 * Checks names and keys: of jobs, crons, daemons, workflows, steps, signals, locks, leader roles, rate limits, one-time state and
 * nodes. They appear in log lines, URLs and metrics, so control characters are rejected. Rows that were inserted by SQL may
 * contain them all the same: {@link #printable} is for those.
 */
public final class Names {

    /** The name, or capability, under which reports and metrics sum up those that they do not list. */
    public static final String OTHERS = "(other)";

    /** Two names of this length still fit into an index entry. */
    private static final int LONGEST = 500;

    private static final int SHOWN = 200;

    private Names() {}

    /**
     * Rejects a name or key that is blank, longer than 500 characters, or not printable.
     *
     * @param what the kind of name, with which the message begins
     * @throws IllegalArgumentException if it is rejected, with the reason
     */
    public static void require(String what, String text) {
        if (text.isBlank() || text.length() > LONGEST) {
            throw new IllegalArgumentException("%s of %d characters: it must have 1 to %d, not all of them blank"
                    .formatted(what, text.length(), LONGEST));
        }
        requirePrintable(what, text);
    }

    /**
     * Rejects a job name or capability like {@link #require}, and the one under which reports sum up further ones.
     *
     * @throws IllegalArgumentException if it is rejected, with the reason
     */
    public static void requireListable(String what, String text) {
        require(what, text);
        if (text.equals(OTHERS)) {
            throw new IllegalArgumentException(
                    "%s '%s' is reserved: reports and metrics sum up further ones under it".formatted(what, text));
        }
    }

    /** Returns whether {@link #requirePrintable} accepts a text. */
    public static boolean isPrintable(String text) {
        try {
            requirePrintable("text", text);
            return true;
        } catch (IllegalArgumentException e) {
            return false;
        }
    }

    /**
     * Rejects control characters, line separators and halves of surrogate pairs, which PostgreSQL cannot store.
     *
     * @throws IllegalArgumentException if there is one, with the character and its position
     */
    public static void requirePrintable(String what, String text) {
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (isControl(c)) {
                throw new IllegalArgumentException("%s '%s' holds a control character (%s at position %d); remove it"
                        .formatted(what, printable(text), c == 0 ? "NUL" : "U+%04X".formatted((int) c), i));
            }
            if (Character.isSurrogate(c)) {
                if (!isPair(text, i)) {
                    throw new IllegalArgumentException(
                            "%s '%s' holds half of a surrogate pair (at position %d), which PostgreSQL cannot store"
                                    .formatted(what, printable(text), i));
                }
                i++;
            }
        }
    }

    private static boolean isPair(String text, int at) {
        return Character.isHighSurrogate(text.charAt(at))
                && at + 1 < text.length()
                && Character.isLowSurrogate(text.charAt(at + 1));
    }

    private static boolean isControl(char c) {
        return switch (Character.getType(c)) {
            case Character.CONTROL, Character.LINE_SEPARATOR, Character.PARAGRAPH_SEPARATOR -> true;
            default -> false;
        };
    }

    /** Marks that turn the direction of the text could make a log line or a page show another name than it has. */
    private static boolean isShown(char c) {
        return !isControl(c)
                && switch (Character.getDirectionality(c)) {
                    case Character.DIRECTIONALITY_LEFT_TO_RIGHT_EMBEDDING,
                            Character.DIRECTIONALITY_LEFT_TO_RIGHT_OVERRIDE,
                            Character.DIRECTIONALITY_LEFT_TO_RIGHT_ISOLATE,
                            Character.DIRECTIONALITY_RIGHT_TO_LEFT_EMBEDDING,
                            Character.DIRECTIONALITY_RIGHT_TO_LEFT_OVERRIDE,
                            Character.DIRECTIONALITY_RIGHT_TO_LEFT_ISOLATE,
                            Character.DIRECTIONALITY_POP_DIRECTIONAL_FORMAT,
                            Character.DIRECTIONALITY_POP_DIRECTIONAL_ISOLATE,
                            Character.DIRECTIONALITY_FIRST_STRONG_ISOLATE -> false;
                    default -> true;
                };
    }

    /** Returns an unchecked name for a log line or a message: on one line, and not too long. */
    public static String printable(String text) {
        return printable(text, SHOWN);
    }

    /** Returns an unchecked text on one line; of a longer text the first characters, followed by three dots. */
    public static String printable(String text, int longest) {
        boolean clean = text.length() <= longest;
        for (int i = 0; clean && i < text.length(); i++) {
            char c = text.charAt(i);
            clean = isShown(c) && !Character.isSurrogate(c);
        }
        if (clean) {
            return text;
        }
        var printable = new StringBuilder();
        for (int i = 0; i < text.length() && i < longest; i++) {
            char c = text.charAt(i);
            if (Character.isSurrogate(c) && isPair(text, i)) {
                printable.append(c).append(text.charAt(++i));
            } else {
                printable.append(isShown(c) && !Character.isSurrogate(c) ? c : '?');
            }
        }
        return text.length() > longest ? printable + "..." : printable.toString();
    }

    /** Returns each name as {@link #printable(String)} does. */
    public static List<String> printable(Collection<String> texts) {
        return texts.stream().map(Names::printable).toList();
    }
}
