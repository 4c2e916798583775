package dev.forge.cluster.job;

import java.util.Arrays;
import java.util.Locale;

/** How urgent a job is. More urgent ones are claimed first; the rest is aged, so that nothing starves. */
public enum JobPriority {
    /** Whenever there is nothing else to do. */
    BACKGROUND(0),
    /** Less urgent than usual. */
    LOW(25),
    /** The default. */
    NORMAL(50),
    /** More urgent than usual. */
    HIGH(75),
    /** Before everything else. */
    CRITICAL(100);

    private final int value;

    JobPriority(int value) {
        this.value = value;
    }

    /** What is stored; operators may use numbers in between. */
    public int value() {
        return value;
    }

    /** The nearest level at or below a stored value. */
    public static JobPriority of(int value) {
        JobPriority nearest = BACKGROUND;
        for (JobPriority priority : values()) {
            if (priority.value <= value) {
                nearest = priority;
            }
        }
        return nearest;
    }

    /** By its name, in any case. */
    public static JobPriority of(String name) {
        return Arrays.stream(values())
                .filter(priority -> priority.name().equals(name.trim().toUpperCase(Locale.ROOT)))
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException(
                        "'%s' is not a priority; there are %s".formatted(name, Arrays.toString(values()))));
    }
}
