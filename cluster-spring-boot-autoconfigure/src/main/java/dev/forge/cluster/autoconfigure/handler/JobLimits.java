// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.handler;

import dev.forge.cluster.BackoffStrategy;
import dev.forge.cluster.autoconfigure.properties.work.JobProperties;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.runtime.Backoff.Growth;
import dev.forge.cluster.job.Backoff;
import java.time.Duration;
import java.util.Set;
import org.jspecify.annotations.Nullable;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.core.annotation.MergedAnnotation;

/** Attempts, timeout, backoff and retention of a handler: from its annotation, by default from the properties. */
public final class JobLimits {

    private static final Backoff DEFAULT_BACKOFF =
            MergedAnnotation.of(Backoff.class).synthesize();

    private final ConfigurableListableBeanFactory beans;
    private final JobProperties properties;
    private final AttributeReader attributes;

    public JobLimits(ConfigurableListableBeanFactory beans, JobProperties properties) {
        this.beans = beans;
        this.properties = properties;
        this.attributes = new AttributeReader(beans);
    }

    public JobHandler.Limits of(
            String maxAttempts,
            Backoff backoff,
            Set<Class<? extends Throwable>> noRetryFor,
            String timeout,
            String retention) {
        return new JobHandler.Limits(
                attributes.value("maxAttempts", maxAttempts, AttributeReader.atLeast(1), properties.maxAttempts()),
                backoff(backoff),
                attributes.value(
                        "backoff.jitter",
                        attributes.either(
                                "backoff.jitter",
                                backoff.jitter() < 0 ? -1.0 : backoff.jitter(),
                                -1.0,
                                backoff.jitterString()),
                        text -> number(text, 0, 1),
                        properties.backoff().jitter()),
                noRetryFor,
                attributes.valueOrNull("timeout", timeout, AttributeReader::positive, properties.timeout()),
                attributes.valueOrNull("retention", retention, AttributeReader::notNegative, completedRetention()));
    }

    /** Returns the limits of the properties. */
    public JobHandler.Limits usual() {
        return of("", DEFAULT_BACKOFF, Set.of(), "", "");
    }

    /** Zero means that the node that completes the job deletes it. */
    private @Nullable Duration completedRetention() {
        Duration configured = properties.retention().completed();
        return configured.isZero() ? configured : null;
    }

    private BackoffStrategy backoff(Backoff own) {
        JobProperties.Backoff usual = properties.backoff();
        String multiplier = attributes.either("backoff.multiplier", own.multiplier(), 0.0, own.multiplierString());
        boolean changed =
                own.strategy() != Backoff.Strategy.DEFAULT || !(own.delay() + multiplier + own.maxDelay()).isEmpty();
        BackoffStrategy bean = beans.getBeanProvider(BackoffStrategy.class).getIfUnique();
        if (bean != null && !changed) {
            return bean;
        }
        Duration delay = attributes.value("backoff.delay", own.delay(), AttributeReader::positive, usual.delay());
        Duration longest =
                attributes.value("backoff.maxDelay", own.maxDelay(), AttributeReader::positive, usual.maxDelay());
        return new dev.forge.cluster.internal.runtime.Backoff(
                growth(own.strategy(), usual.strategy()),
                delay,
                attributes.value(
                        "backoff.multiplier",
                        multiplier,
                        text -> number(text, 1, Double.MAX_VALUE),
                        usual.multiplier()),
                longest.compareTo(delay) < 0 ? delay : longest);
    }

    private static Growth growth(Backoff.Strategy own, JobProperties.Backoff.Strategy usual) {
        return switch (own) {
            case DEFAULT -> Growth.valueOf(usual.name());
            case EXPONENTIAL -> Growth.EXPONENTIAL;
            case LINEAR -> Growth.LINEAR;
            case FIXED -> Growth.FIXED;
        };
    }

    private static double number(String text, double least, double most) {
        double number = Double.parseDouble(text);
        if (!(number >= least && number <= most)) {
            throw new IllegalArgumentException(
                    most == Double.MAX_VALUE
                            ? "must be at least %.0f".formatted(least)
                            : "must be between %.0f and %.0f".formatted(least, most));
        }
        return number;
    }
}
