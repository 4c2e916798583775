// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job;

import java.util.Arrays;
import java.util.Locale;

/** The priority of a job. Jobs with a higher priority are claimed first. Waiting jobs age, so that none starves. */
public enum JobPriority {
    /** Runs when no other job waits. */
    BACKGROUND(0),
    /** Below {@link #NORMAL}. */
    LOW(25),
    /** The default. */
    NORMAL(50),
    /** Above {@link #NORMAL}. */
    HIGH(75),
    /** Runs before all others. */
    CRITICAL(100);

    private final int value;

    JobPriority(int value) {
        this.value = value;
    }

    /** Returns the stored value. Operators can use numbers in between. */
    public int value() {
        return value;
    }

    /** Returns the nearest level at or below a stored value. */
    public static JobPriority of(int value) {
        JobPriority nearest = BACKGROUND;
        for (JobPriority priority : values()) {
            if (priority.value <= value) {
                nearest = priority;
            }
        }
        return nearest;
    }

    /**
     * Returns a priority by its name, in upper or lower case.
     *
     * @throws IllegalArgumentException if there is no such priority
     */
    public static JobPriority of(String name) {
        return Arrays.stream(values())
                .filter(priority -> priority.name().equals(name.trim().toUpperCase(Locale.ROOT)))
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException(
                        "Unknown priority '%s'; use one of %s".formatted(name, Arrays.toString(values()))));
    }
}
