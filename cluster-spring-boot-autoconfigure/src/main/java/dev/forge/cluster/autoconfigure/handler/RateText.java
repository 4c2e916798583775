// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.handler;

import dev.forge.cluster.ratelimit.RateLimit;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.springframework.boot.convert.DurationStyle;

/** Rates as texts, such as {@code 10/s} or {@code 1/15m}. */
public final class RateText {

    private static final Pattern RATE = Pattern.compile("(\\d{1,10})\\s*/\\s*(\\d{0,12})\\s*(ms|s|m|h|d)");

    private record Unit(String symbol, long millis) {}

    private static final List<Unit> LONGEST_FIRST =
            List.of(new Unit("d", 86_400_000), new Unit("h", 3_600_000), new Unit("m", 60_000), new Unit("s", 1_000));

    private RateText() {}

    /**
     * Parses a rate.
     *
     * @throws IllegalArgumentException if the text is no rate, or the rate or the burst are out of range
     */
    public static RateLimit parse(String text, long burst) {
        Matcher matcher = RATE.matcher(text.trim().toLowerCase(Locale.ROOT));
        if (!matcher.matches()) {
            throw new IllegalArgumentException("is not a rate such as 10/s, 100/m or 1/15m");
        }
        String number = matcher.group(2);
        Duration per = DurationStyle.SIMPLE.parse((number.isEmpty() ? "1" : number) + matcher.group(3));
        return new RateLimit(Long.parseLong(matcher.group(1)), per, burst);
    }

    /** Returns the rate, without its burst, as a text that {@link #parse} accepts. */
    public static String of(RateLimit rate) {
        long millis = rate.per().toMillis();
        Unit unit = LONGEST_FIRST.stream()
                .filter(candidate -> millis % candidate.millis == 0)
                .findFirst()
                .orElse(new Unit("ms", 1));
        long number = millis / unit.millis;
        return "%d/%s%s".formatted(rate.requests(), number == 1 ? "" : String.valueOf(number), unit.symbol);
    }
}
