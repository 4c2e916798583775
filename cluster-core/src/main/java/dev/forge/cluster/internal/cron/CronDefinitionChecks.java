// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import dev.forge.cluster.cron.CronDefinition;
import dev.forge.cluster.cron.CronInfo;
import dev.forge.cluster.cron.CronRejectedException;
import dev.forge.cluster.cron.CronTarget;
import dev.forge.cluster.cron.Misfire;
import dev.forge.cluster.internal.cron.CronSlotStore.HandlerAvailability;
import dev.forge.cluster.internal.cron.CronStore.Definition;
import dev.forge.cluster.internal.cron.CronStore.RunOptions;
import dev.forge.cluster.internal.job.enqueue.ReservedNames;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.runtime.Arguments;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.internal.runtime.PayloadJson;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.job.JobRejectedException;
import java.time.Duration;
import java.time.ZoneId;
import java.util.Map;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * Checks the definitions of crons that are created or changed at run time, and applies the defaults. All methods throw {@link
 * CronRejectedException} with the name of the cron and the reason.
 */
final class CronDefinitionChecks {

    private static final int MAX_NAME_LENGTH = 200;
    private static final int MAX_TEXT_LENGTH = 500;

    private static final Pattern BAD_PATH = Pattern.compile("(^|/)\\.{0,2}(/|$)");

    private final CronDeclarations declarations;
    private final ReservedNames reserved;
    private final CronEngine.Defaults defaults;
    private final PayloadJson json;
    private final StoredCrons stored;

    /** Reads handlers and crons from the database, in the caller's transaction. */
    record StoredCrons(CronSlotStore slots, CronReports reports) {}

    CronDefinitionChecks(
            CronDeclarations declarations,
            ReservedNames reserved,
            CronEngine.Defaults defaults,
            PayloadJson json,
            StoredCrons stored) {
        this.declarations = declarations;
        this.reserved = reserved;
        this.defaults = defaults;
        this.json = json;
        this.stored = stored;
    }

    /** Checks a name that the caller looks up; PostgreSQL would report a NUL as a failure of the database. */
    static void requireLookupName(String call, String name) {
        Arguments.required(call, "name", name);
        try {
            Names.requirePrintable("cron", name);
        } catch (IllegalArgumentException e) {
            throw new CronRejectedException("%s: %s".formatted(call, e.getMessage()), e);
        }
    }

    /** Checks a definition and applies the defaults. */
    Definition check(CronDefinition cron) {
        String name = cron.name();
        requireName(name);
        requireText(name, "expression", cron.expression());
        requireLength(name, "expression", cron.expression());
        requireText(name, "handler", cron.handler());
        Integer limit = cron.catchUpLimit();
        requireHandler(cron);
        CronTarget target = target(cron);
        ZoneId zone = cron.zone();
        JobHandler handler = handlers().named(cron.handler());
        String capability = cron.capability();
        if (capability != null) {
            requireText(name, "capability", capability);
            requireLength(name, "capability", capability);
            if (capability.startsWith("@")) {
                throw new CronRejectedException(
                        "Cron '%s': capability '%s': those that begin with @ are reserved; the target decides where the cron runs"
                                .formatted(name, capability));
            }
        }
        String group = cron.group();
        if (group != null) {
            requireText(name, "group", group);
            requireLength(name, "group", group);
        }
        var definition = new Definition(
                name,
                cron.handler(),
                normalExpression(cron),
                zone == null ? defaults.zone() : zone.getId(),
                target,
                capability == null && handler != null && target == CronTarget.ANY_WORKER
                        ? handler.capability()
                        : capability,
                cron.misfire() == Misfire.DEFAULT ? defaults.misfire() : cron.misfire(),
                limit == null ? defaults.catchUpLimit() : limit,
                cron.overlap(),
                cron.jitter().toMillis(),
                new RunOptions(
                        cron.maxAttempts(),
                        priority(cron, handler),
                        millis(cron.timeout()),
                        millis(cron.retention()),
                        group));
        schedule(definition);
        return definition;
    }

    /** Returns the schedule of a definition. */
    CronSchedule schedule(Definition definition) {
        try {
            return CronSchedule.of(definition.expression(), definition.zone());
        } catch (IllegalArgumentException e) {
            throw rejected(definition.name(), e);
        }
    }

    /** Returns the payload as JSON that the handler can read. */
    String payload(CronDefinition cron) {
        Object payload = cron.payload();
        JobHandler handler = handlers().named(cron.handler());
        try {
            String text = payload == null ? "{}" : json.write(payload);
            if (handler != null) {
                handler.target().requireReadable(json, payload, text);
            }
            return text;
        } catch (IllegalArgumentException e) {
            throw new CronRejectedException("Cron '%s': payload %s".formatted(cron.name(), e.getMessage()), e);
        }
    }

    private JobHandlers handlers() {
        return declarations.handlers();
    }

    private static String normalExpression(CronDefinition cron) {
        try {
            return CronSchedule.normal(cron.expression());
        } catch (IllegalArgumentException e) {
            throw rejected(cron.name(), e);
        }
    }

    private void requireHandler(CronDefinition cron) {
        String handler = cron.handler();
        try {
            reserved.requireFreeName(handler);
        } catch (JobRejectedException e) {
            throw rejected(cron.name(), e);
        }
        boolean local = handlers().named(handler) != null;
        Map<String, HandlerAvailability> available = local ? Map.of() : stored.slots.availableHandlers();
        if (!local && !available.containsKey(handler)) {
            var all = new TreeSet<>(available.keySet());
            all.addAll(handlers().names());
            all.removeIf(reserved::isReserved);
            throw new CronRejectedException("Cron '%s': no live node has handler '%s'; known handlers: %s"
                    .formatted(cron.name(), handler, all));
        }
    }

    private CronTarget target(CronDefinition cron) {
        CronTarget wanted = cron.target();
        CronTarget declared = declaredTarget(cron.handler());
        CronTarget target = wanted != null ? wanted : declared != null ? declared : CronTarget.ANY_WORKER;
        if (target == CronTarget.LEADER && declared == null) {
            throw new CronRejectedException(
                    "Cron '%s': target LEADER requires a method with @ClusterCron, but handler '%s' is none. Use target ANY_WORKER."
                            .formatted(cron.name(), cron.handler()));
        }
        if (target == CronTarget.LEADER && cron.capability() != null) {
            throw new CronRejectedException(
                    "Cron '%s': capability '%s' has no effect, because the leader runs this cron. Use target ANY_WORKER."
                            .formatted(cron.name(), cron.capability()));
        }
        return target;
    }

    /** Returns the target of the cron method with that name or alias; null if it is a job. */
    private @Nullable CronTarget declaredTarget(String handler) {
        JobHandler local = handlers().named(handler);
        Definition here = declarations.find(local == null ? handler : local.name());
        if (here != null) {
            return here.target();
        }
        return stored.reports.find(handler).stream()
                .filter(CronInfo::declared)
                .map(CronInfo::target)
                .findFirst()
                .orElse(null);
    }

    private static int priority(CronDefinition cron, @Nullable JobHandler handler) {
        JobPriority own = cron.priority();
        return own != null ? own.value() : handler != null ? handler.priority() : RunOptions.DEFAULTS.priority();
    }

    private static @Nullable Long millis(@Nullable Duration value) {
        return value == null ? null : value.toMillis();
    }

    private static void requireName(String name) {
        requireText(name, "name", name);
        if (name.length() > MAX_NAME_LENGTH) {
            throw new CronRejectedException("Cron name '%s...' has %d characters, the limit is %d"
                    .formatted(name.substring(0, 20), name.length(), MAX_NAME_LENGTH));
        }
        if (BAD_PATH.matcher(name).find()) {
            throw new CronRejectedException(
                    "Cron name '%s' has an empty, '.' or '..' path segment: the endpoint could not address the cron"
                            .formatted(name));
        }
    }

    private static void requireText(String cron, String attribute, String text) {
        if (text.isBlank()) {
            throw new CronRejectedException("Cron '%s': %s '%s' must not be blank"
                    .formatted(Names.printable(cron), attribute, Names.printable(text)));
        }
        try {
            Names.requirePrintable(attribute, text);
        } catch (IllegalArgumentException e) {
            throw rejected(Names.printable(cron), e);
        }
    }

    private static void requireLength(String cron, String attribute, String text) {
        if (text.length() > MAX_TEXT_LENGTH) {
            throw new CronRejectedException("Cron '%s': %s of %d characters; at most %d are allowed"
                    .formatted(cron, attribute, text.length(), MAX_TEXT_LENGTH));
        }
    }

    private static CronRejectedException rejected(String cron, RuntimeException cause) {
        return new CronRejectedException("Cron '%s': %s".formatted(cron, cause.getMessage()), cause);
    }
}
