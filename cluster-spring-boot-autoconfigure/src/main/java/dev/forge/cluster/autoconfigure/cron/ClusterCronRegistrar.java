// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.cron;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.autoconfigure.ClusterDatabase;
import dev.forge.cluster.autoconfigure.handler.AnnotatedMethods;
import dev.forge.cluster.autoconfigure.handler.AttributeException;
import dev.forge.cluster.autoconfigure.handler.AttributeReader;
import dev.forge.cluster.autoconfigure.handler.HandlerRegistrar;
import dev.forge.cluster.autoconfigure.handler.JobLimits;
import dev.forge.cluster.autoconfigure.handler.MethodTransactions;
import dev.forge.cluster.autoconfigure.properties.ClusterProperties;
import dev.forge.cluster.autoconfigure.properties.work.CronProperties;
import dev.forge.cluster.cron.ClusterCron;
import dev.forge.cluster.cron.CronContext;
import dev.forge.cluster.cron.CronDefinition;
import dev.forge.cluster.cron.CronTarget;
import dev.forge.cluster.cron.Misfire;
import dev.forge.cluster.internal.cron.CronContexts;
import dev.forge.cluster.internal.cron.CronDeclarations;
import dev.forge.cluster.internal.cron.CronEngine;
import dev.forge.cluster.internal.cron.CronStore;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.job.JobPriority;
import java.time.Duration;
import java.util.Arrays;
import java.util.Set;
import java.util.function.Function;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;

/** Registers {@link ClusterCron} methods: a handler for the runs and a definition for the slots of each. */
public final class ClusterCronRegistrar extends HandlerRegistrar {

    private final ConfigurableListableBeanFactory beans;
    private final CronDeclarations crons;
    private final CronProperties usual;
    private final AttributeReader attributes;
    private final JobLimits limits;
    private final MethodTransactions transactions;

    ClusterCronRegistrar(
            ConfigurableListableBeanFactory beans,
            CronDeclarations crons,
            ClusterProperties properties,
            ClusterDatabase database) {
        this.beans = beans;
        this.crons = crons;
        this.usual = properties.cron();
        this.attributes = new AttributeReader(beans);
        this.limits = new JobLimits(beans, properties.job());
        this.transactions = new MethodTransactions(beans, database);
    }

    @Override
    public void register() {
        AnnotatedMethods.find(beans, ClusterCron.class).forEach(this::add);
    }

    private void add(AnnotatedMethods.Found<ClusterCron> found) {
        ClusterCron cron = found.annotation();
        try {
            JobHandler handler = new JobHandler(
                    attributes.name(cron.name(), found.method()),
                    Arrays.stream(cron.aliases()).map(attributes::alias).toList(),
                    attributes.textOrNull(cron.capability()),
                    attributes.value(
                            "priority",
                            attributes.either("priority", cron.priority(), JobPriority.NORMAL, cron.priorityString()),
                            name -> JobPriority.of(name).value(),
                            JobPriority.NORMAL.value()),
                    limits.of(
                            attributes.either("maxAttempts", cron.maxAttempts(), 0, cron.maxAttemptsString()),
                            cron.backoff(),
                            Set.of(cron.noRetryFor()),
                            cron.timeout(),
                            cron.retention()),
                    target(found));
            crons.add(handler, definition(handler, cron));
        } catch (IllegalArgumentException | IllegalStateException e) {
            throw new ClusterStartupException(
                    "@ClusterCron on %s: %s".formatted(found.place(), e.getMessage()),
                    AttributeException.action(
                            e,
                            "The method of a cron takes a CronContext or nothing, and is neither private nor static; its expression has"
                                    + " five fields, or six with seconds in front."),
                    e);
        }
    }

    private CronStore.Definition definition(JobHandler handler, ClusterCron cron) {
        String expression = attributes.text(cron.value());
        String every = attributes.text(cron.every());
        if (expression.isEmpty() == every.isEmpty()) {
            throw new IllegalArgumentException(
                    "it needs either an expression or an interval, but value is '%s' and every is '%s'"
                            .formatted(expression, every));
        }
        String zone = attributes.value("zone", cron.zone(), Function.identity(), usual.zone());
        String schedule = CronEngine.requireSchedule(
                every.isEmpty()
                        ? expression
                        : every.equals("-")
                                ? every
                                : CronDefinition.EVERY
                                        + AttributeReader.read("every", every, AttributeReader::positive),
                zone);
        if (cron.target() == CronTarget.LEADER && handler.capability() != null) {
            throw AttributeException.of(
                    "capability",
                    handler.capability(),
                    "it has no effect, because the leader runs this cron; set target = ANY_WORKER",
                    null);
        }
        return new CronStore.Definition(
                handler.name(),
                handler.name(),
                schedule,
                zone,
                cron.target(),
                handler.capability(),
                cron.misfire() == Misfire.DEFAULT ? usual.misfire().policy() : cron.misfire(),
                attributes.value(
                        "catchUpLimit",
                        attributes.either("catchUpLimit", cron.catchUpLimit(), 0, cron.catchUpLimitString()),
                        AttributeReader.between(1, 1_000),
                        usual.catchUpLimit()),
                cron.overlap(),
                attributes
                        .value("jitter", cron.jitter(), ClusterCronRegistrar::jitter, Duration.ZERO)
                        .toMillis(),
                // The handler has its own limits; the leader that enqueues the run need not have the handler.
                CronStore.RunOptions.withPriority(handler.priority()));
    }

    private static Duration jitter(String text) {
        Duration jitter = AttributeReader.notNegative(text);
        if (jitter.compareTo(CronEngine.LONGEST_JITTER) > 0) {
            throw new IllegalArgumentException("must not be longer than a day");
        }
        return jitter;
    }

    private JobHandler.Target target(AnnotatedMethods.Found<ClusterCron> found) {
        AnnotatedMethods.Call method = found.call(beans);
        Class<?>[] parameters = found.method().getParameterTypes();
        if (parameters.length > 1 || (parameters.length == 1 && parameters[0] != CronContext.class)) {
            throw new IllegalArgumentException("it has the parameters " + Arrays.toString(parameters));
        }
        ObjectProvider<CronContexts> contexts = beans.getBeanProvider(CronContexts.class);
        JobHandler.Code code = (payload, job) ->
                contexts.getObject().run(job, context -> parameters.length == 0 ? method.with() : method.with(context));
        return new JobHandler.Target(null, transactions.of(found), code, found.place());
    }
}
