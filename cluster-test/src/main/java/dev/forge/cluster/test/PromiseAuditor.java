// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * Verifies what the cluster promises, whatever faults a test has injected: no effect twice and none lost, no write of an old term, and
 * one firing for each slot.
 */
public final class PromiseAuditor {

    private static final int MOST_LISTED = 10;

    private final TestDatabase database;
    private final Schema schema;

    PromiseAuditor(TestDatabase database, Schema schema) {
        this.database = database;
        this.schema = schema;
    }

    /**
     * Verifies that each expected effect is there once.
     *
     * @param sql a query whose first column names the effects, one row for each
     * @param expected the names
     */
    public PromiseAuditor eachOnce(String sql, Collection<?> expected) {
        List<String> found = database.jdbc()
                .sql(sql)
                .query((row, n) -> String.valueOf(row.getObject(1)))
                .list();
        Map<String, Long> counts =
                found.stream().collect(Collectors.groupingBy(name -> name, LinkedHashMap::new, Collectors.counting()));
        var problems = new ArrayList<String>();
        counts.forEach((name, count) -> {
            if (count > 1) {
                problems.add("%s: %d times".formatted(name, count));
            }
        });
        expected.stream()
                .map(String::valueOf)
                .filter(name -> !counts.containsKey(name))
                .forEach(name -> problems.add(name + ": lost"));
        Set<String> names = expected.stream().map(String::valueOf).collect(Collectors.toSet());
        counts.keySet().stream()
                .filter(name -> !names.contains(name))
                .forEach(name -> problems.add(name + ": unexpected"));
        require("each effect once", problems);
        return this;
    }

    /**
     * Verifies that no job is left to run, and that none has failed. Runs of workflows and the jobs that carry them are not included: see
     * {@link #allRunsCompleted()}.
     */
    public PromiseAuditor allJobsCompleted() {
        require("all jobs completed", texts("""
                SELECT format('%s (%s): %s%s', name, id, status, coalesce(', ' || left(last_error, 200), ''))
                FROM ~.forge_jobs WHERE status <> 'completed' AND carries_run IS NULL ORDER BY id
                """));
        return this;
    }

    /** Verifies that all runs of workflows, including children, have completed: none waits, is blocked, has failed or was compensated. */
    public PromiseAuditor allRunsCompleted() {
        require("all runs completed", texts("""
                SELECT format('%s@%s (%s): %s%s', workflow_name, workflow_version, id, status,
                              coalesce(', ' || left(last_error, 200), ''))
                FROM ~.forge_workflow_runs WHERE status <> 'completed' ORDER BY id
                """));
        return this;
    }

    /** Verifies that each slot of each cron was decided and fired at most once. */
    public PromiseAuditor oneFiringPerSlot() {
        require("one firing per slot", texts("""
                SELECT format('cron %s, slot %s: %s jobs', metadata ->> 'cron', metadata ->> 'slot', count(*))
                FROM ~.forge_jobs WHERE metadata ->> 'cron' IS NOT NULL AND metadata ->> 'slot' IS NOT NULL
                GROUP BY metadata ->> 'cron', metadata ->> 'slot' HAVING count(*) > 1 ORDER BY 1
                """));
        return this;
    }

    /** Verifies that no leader has decided a slot after another one had begun a later term. */
    public PromiseAuditor noWriteOfAnOldTerm() {
        require("no write of an old term", texts("""
                SELECT format('cron %s, slot %s: decided in term %s at %s, after one in term %s', cron, slot, term, fired_at, latest)
                FROM (SELECT cron, slot, term, fired_at, max(term) OVER (ORDER BY fired_at RANGE BETWEEN UNBOUNDED PRECEDING
                          AND interval '1 microsecond' PRECEDING) AS latest
                      FROM ~.forge_cron_runs WHERE term IS NOT NULL) AS decided
                WHERE term < latest ORDER BY fired_at
                """));
        return this;
    }

    private List<String> texts(String sql) {
        return database.jdbc()
                .sql(schema.sql(sql))
                .query((row, n) -> String.valueOf(row.getString(1)))
                .list();
    }

    private static void require(String promise, List<String> problems) {
        if (!problems.isEmpty()) {
            throw new AssertionError("Broken promise: %s.%n%s%s"
                    .formatted(
                            promise,
                            problems.stream()
                                    .limit(MOST_LISTED)
                                    .map(problem -> "  " + problem)
                                    .collect(Collectors.joining(System.lineSeparator())),
                            problems.size() > MOST_LISTED
                                    ? "%n  and %d more".formatted(problems.size() - MOST_LISTED)
                                    : ""));
        }
    }
}
