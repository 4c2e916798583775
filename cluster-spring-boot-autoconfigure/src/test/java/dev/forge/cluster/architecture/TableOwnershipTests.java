// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.architecture;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Verifies that each table is written only by the slice that owns it. */
class TableOwnershipTests {

    private static final Path SOURCES = Path.of("../cluster-core/src/main/java/dev/forge/cluster/internal");
    private static final Pattern WRITE =
            Pattern.compile("\\b(?:INSERT INTO|UPDATE|DELETE FROM|MERGE INTO|TRUNCATE)\\s+~\\.(forge_\\w+)");

    private static final Map<String, String> OWNERS = Map.ofEntries(
            Map.entry("forge_nodes", "node"),
            Map.entry("forge_job_names", "node"),
            Map.entry("forge_former_nodes", "node"),
            Map.entry("forge_audit", "audit"),
            Map.entry("forge_leaders", "leader"),
            Map.entry("forge_leader_leases", "leader"),
            Map.entry("forge_locks", "lock"),
            Map.entry("forge_state", "state"),
            Map.entry("forge_undeletable_rows", "purge"),
            Map.entry("forge_startup_actions", "startup"),
            Map.entry("forge_jobs", "job"),
            Map.entry("forge_job_pauses", "job"),
            Map.entry("forge_job_limits", "job"),
            Map.entry("forge_job_batches", "job"),
            Map.entry("forge_job_batch_parts", "job"),
            Map.entry("forge_job_dependencies", "job"),
            Map.entry("forge_job_weights", "job"),
            Map.entry("forge_job_rates", "job"),
            Map.entry("forge_job_windows", "job"),
            Map.entry("forge_job_tags", "job"),
            Map.entry("forge_job_history", "job"),
            Map.entry("forge_job_logs", "job"),
            Map.entry("forge_crons", "cron"),
            Map.entry("forge_cron_runs", "cron"),
            Map.entry("forge_cron_sets", "cron"),
            Map.entry("forge_cron_memories", "cron"),
            Map.entry("forge_daemons", "daemon"),
            Map.entry("forge_daemon_pauses", "daemon"),
            Map.entry("forge_workflow_runs", "workflow"),
            Map.entry("forge_workflow_steps", "workflow"),
            Map.entry("forge_workflow_signals", "workflow"),
            Map.entry("forge_rate_limits", "ratelimit"));

    /** Allowed writes to tables of other slices, each with its reason. */
    private static final Set<String> EXCEPTIONS = Set.of(
            // The limits that a node reads are those it is said to obey: one statement, in which none can be added.
            "job writes forge_nodes");

    /** The only files that write {@code forge_jobs}; statements of other packages contain fragments from them. */
    private static final Path ROWS = SOURCES.resolve("job/row");

    /** What applications run of this project. Tests and benchmarks fill tables by themselves. */
    private static final List<String> MODULES =
            List.of("cluster-core", "cluster-dashboard", "cluster-spring-boot-autoconfigure", "cluster-test");

    private static Set<String> writes(Stream<Path> files) {
        var writes = new TreeSet<String>();
        files.filter(file -> file.toString().endsWith(".java")).forEach(file -> {
            var matcher = WRITE.matcher(text(file));
            while (matcher.find()) {
                writes.add("%s writes %s".formatted(SOURCES.relativize(file).getName(0), matcher.group(1)));
            }
        });
        return writes;
    }

    private static boolean writesJobs(Path file) {
        return WRITE.matcher(text(file))
                .results()
                .anyMatch(write -> write.group(1).equals("forge_jobs"));
    }

    private static String text(Path file) {
        try {
            return Files.readString(file);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static Set<String> violations(Set<String> writes) {
        var violations = new TreeSet<>(writes);
        violations.removeAll(EXCEPTIONS);
        OWNERS.forEach((table, owner) -> violations.remove("%s writes %s".formatted(owner, table)));
        return violations;
    }

    @Test
    void tables_are_written_by_their_own_slice() throws IOException {
        try (Stream<Path> files = Files.walk(SOURCES)) {
            Set<String> writes = writes(files);
            assertThat(violations(writes)).isEmpty();
            // Each owner and each exception must still match: a pattern without matches would pass, too.
            assertThat(writes).containsAll(EXCEPTIONS);
            OWNERS.forEach((table, owner) -> assertThat(writes).contains("%s writes %s".formatted(owner, table)));
        }
    }

    @Test
    void jobs_are_written_by_the_package_of_their_rows() throws IOException {
        for (String module : MODULES) {
            try (Stream<Path> files = Files.walk(Path.of("..", module, "src/main/java"))) {
                assertThat(files.filter(file -> file.toString().endsWith(".java"))
                                .filter(TableOwnershipTests::writesJobs)
                                .filter(file -> !file.startsWith(ROWS)))
                        .isEmpty();
            }
        }
        try (Stream<Path> files = Files.list(ROWS)) {
            assertThat(files.filter(TableOwnershipTests::writesJobs)).hasSizeGreaterThan(10);
        }
    }

    @Test
    void write_in_a_part_of_a_statement_is_found(@TempDir Path directory) throws IOException {
        Path offender = directory.resolve("Offender.java");
        Files.writeString(offender, "String job = \"WITH job AS (UPDATE ~.forge_jobs j SET %s)\".formatted(changes);");
        assertThat(writesJobs(offender)).isTrue();
        Path reader = directory.resolve("Reader.java");
        Files.writeString(reader, "String jobs = \"SELECT id FROM ~.forge_jobs FOR UPDATE\";");
        assertThat(writesJobs(reader)).isFalse();
    }

    @Test
    void write_to_the_table_of_another_slice_is_found() {
        assertThat(violations(Set.of("lock writes forge_jobs", "job writes forge_jobs")))
                .containsExactly("lock writes forge_jobs");
    }
}
