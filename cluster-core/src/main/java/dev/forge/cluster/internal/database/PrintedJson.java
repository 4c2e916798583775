// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import org.jspecify.annotations.Nullable;

/**
 * Computes the size of JSON as PostgreSQL prints it. A jsonb column stores {@code 1e131000} in a few bytes and prints 131,001
 * digits, so the size of the input says little about the size that a reader receives.
 */
public final class PrintedJson {

    /** The largest number of digits of one number. Any double has fewer, and Jackson reads no more by default. */
    public static final int MOST_DIGITS = 1_000;

    /** Larger exponents are treated like this one, which is far too large. */
    private static final long LARGEST_EXPONENT = 1_000_000_000;

    private final String json;
    private final int mostDigits;
    private int at;
    private long bytes;

    private PrintedJson(String json, int mostDigits) {
        this.json = json;
        this.mostDigits = mostDigits;
    }

    /** Returns the number of printed bytes, except for blanks, signs and points that PostgreSQL adds; 0 for null. */
    public static long bytes(@Nullable String json) {
        return json == null ? 0 : new PrintedJson(json, Integer.MAX_VALUE).measure();
    }

    /**
     * Returns the number of printed bytes as {@link #bytes} does.
     *
     * @throws IllegalArgumentException if a number is printed with more than {@link #MOST_DIGITS} digits
     */
    public static long requireBytes(String json) {
        return new PrintedJson(json, MOST_DIGITS).measure();
    }

    // Does not validate the text: the database does.
    private long measure() {
        while (at < json.length()) {
            char c = json.charAt(at);
            if (c == '"') {
                string();
            } else if (c == '-' || isDigit(c)) {
                number();
            } else {
                bytes += width(c);
                at++;
            }
        }
        return bytes;
    }

    private void string() {
        bytes++;
        at++;
        while (at < json.length()) {
            char c = json.charAt(at++);
            bytes += width(c);
            if (c == '"') {
                return;
            }
            if (c == '\\' && at < json.length()) {
                bytes += width(json.charAt(at++));
            }
        }
    }

    private void number() {
        int from = at;
        if (json.charAt(at) == '-') {
            at++;
        }
        long whole = digits();
        long fraction = 0;
        if (at < json.length() && json.charAt(at) == '.') {
            at++;
            fraction = digits();
        }
        long exponent = at < json.length() && (json.charAt(at) == 'e' || json.charAt(at) == 'E') ? exponent() : 0;
        long wholePrinted = Math.max(1, whole + exponent);
        long fractionPrinted = Math.max(0, fraction - exponent);
        long printed = wholePrinted + fractionPrinted;
        if (printed > mostDigits) {
            throw new IllegalArgumentException(
                    "contains the number %s, which PostgreSQL prints with %d digits; at most %d are allowed. Store it as a string."
                            .formatted(brief(json.substring(from, at)), printed, mostDigits));
        }
        bytes += Math.max((long) at - from, printed);
    }

    private long digits() {
        int from = at;
        while (at < json.length() && isDigit(json.charAt(at))) {
            at++;
        }
        return (long) at - from;
    }

    private long exponent() {
        at++;
        boolean negative = at < json.length() && json.charAt(at) == '-';
        if (negative || (at < json.length() && json.charAt(at) == '+')) {
            at++;
        }
        long exponent = 0;
        while (at < json.length() && isDigit(json.charAt(at))) {
            exponent = Math.min(LARGEST_EXPONENT, exponent * 10 + (json.charAt(at++) - '0'));
        }
        return negative ? -exponent : exponent;
    }

    private static boolean isDigit(char c) {
        return c >= '0' && c <= '9';
    }

    /** Returns the number of bytes in UTF-8; each half of a surrogate pair counts as half of the pair. */
    private static int width(char c) {
        return c < 0x80 ? 1 : c < 0x800 || Character.isSurrogate(c) ? 2 : 3;
    }

    private static String brief(String number) {
        return number.length() <= 40 ? number : number.substring(0, 40) + "...";
    }
}
