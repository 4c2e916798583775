// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import ch.qos.logback.classic.Level;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.UUID;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Recovery of more jobs than one statement takes. */
@ClusterPostgres
class RecoveryBatchTests extends AbstractExecutionTests {

    RecoveryBatchTests(TestDatabase database) {
        super(database);
        jdbc.sql("CREATE TABLE IF NOT EXISTS batches (jobs bigint)").update();
        jdbc.sql("TRUNCATE batches").update();
    }

    @AfterEach
    void removeTriggers() {
        jdbc.sql("DROP FUNCTION IF EXISTS note_batch() CASCADE").update();
        jdbc.sql("DROP FUNCTION IF EXISTS reject() CASCADE").update();
    }

    /** Inserts jobs that a node has claimed and that no live node has a handler for. */
    private void insertClaimed(UUID node, int count) {
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, status, worker_id, claim_epoch, claimed_at, lease_expires_at)
                SELECT gen_random_uuid(), 'lost', 'claimed', ?, 1, now(), now() + interval '1 hour' FROM generate_series(1, ?)
                """).params(node, count).update();
    }

    /** Notes how many jobs each statement recovers, and cancels statements that recover more than that. */
    private void cancelLargerThan(int largest) {
        jdbc.sql("""
                CREATE FUNCTION note_batch() RETURNS trigger LANGUAGE plpgsql AS $$
                DECLARE jobs bigint := (SELECT count(*) FROM changed WHERE name = 'lost');
                BEGIN
                    IF jobs > %d THEN
                        RAISE query_canceled USING MESSAGE = 'canceling statement due to statement timeout';
                    END IF;
                    INSERT INTO batches VALUES (jobs);
                    RETURN NULL;
                END $$
                """.formatted(largest)).update();
        jdbc.sql("CREATE TRIGGER note_batch AFTER UPDATE ON forge_jobs REFERENCING NEW TABLE AS changed"
                        + " FOR EACH STATEMENT EXECUTE FUNCTION note_batch()")
                .update();
    }

    private Member leader() {
        Member member = start();
        await().until(() -> member.leadership().isLeader(Leadership.SCHEDULER));
        return member;
    }

    private long claimed() {
        return jdbc.sql("SELECT count(*) FROM forge_jobs WHERE name = 'lost' AND status = 'claimed'")
                .query(Long.class)
                .single();
    }

    private long largestBatch() {
        return jdbc.sql("SELECT max(jobs) FROM batches").query(Long.class).single();
    }

    @Test
    void one_sweep_recovers_all_jobs_in_bounded_batches() {
        work.sweep = Duration.ofHours(1);
        Member member = leader();
        cancelLargerThan(1_000);
        insertClaimed(UUID.randomUUID(), 3_500);
        member.engine().sweep();
        assertThat(claimed()).isZero();
        assertThat(largestBatch()).isEqualTo(1_000);
        // The first ten, and the number of the others.
        assertThat(logged(Level.WARN, "taken from")).hasSize(11);
    }

    @Test
    void jobs_of_a_node_that_died_are_recovered_without_waiting_for_the_next_sweep() {
        work.sweep = Duration.ofHours(1);
        leader();
        cancelLargerThan(1_000);
        UUID dead = cluster.insertNode("dead", null, "1 hour", "2 hours");
        insertClaimed(dead, 3_500);
        jdbc.sql(
                        "UPDATE forge_nodes SET stale_at = last_heartbeat, dead_at = last_heartbeat + interval '50 milliseconds' WHERE id = ?")
                .param(dead)
                .update();
        await().until(() -> claimed() == 0);
        assertThat(largestBatch()).isEqualTo(1_000);
    }

    @Test
    void sweep_that_takes_too_long_continues_with_fewer_jobs() {
        work.sweep = Duration.ofHours(1);
        Member member = leader();
        cancelLargerThan(70);
        insertClaimed(UUID.randomUUID(), 300);
        member.engine().sweep();
        assertThat(claimed()).isZero();
        assertThat(largestBatch()).isBetween(1L, 70L);
    }

    @Test
    void node_is_declared_dead_although_the_recovery_of_its_jobs_takes_too_long() {
        work.sweep = Duration.ofHours(1);
        leader();
        cancelLargerThan(70);
        UUID dead = cluster.insertNode("dead", null, "1 hour", "2 hours");
        insertClaimed(dead, 300);
        jdbc.sql(
                        "UPDATE forge_nodes SET stale_at = last_heartbeat, dead_at = last_heartbeat + interval '50 milliseconds' WHERE id = ?")
                .param(dead)
                .update();
        await().until(() -> claimed() == 0);
        assertThat(jdbc.sql("SELECT status FROM forge_nodes WHERE id = ?")
                        .param(dead)
                        .query(String.class)
                        .single())
                .isEqualTo("dead");
    }

    @ParameterizedTest
    @ValueSource(strings = {"TRIGGER", "CONSTRAINT TRIGGER"})
    void node_is_declared_dead_although_a_trigger_rejects_the_recovery_of_a_job(String kind) {
        work.sweep = Duration.ofHours(1);
        leader();
        UUID dead = cluster.insertNode("dead", null, "1 hour", "2 hours");
        insertClaimed(dead, 8);
        jdbc.sql(
                        "UPDATE forge_jobs SET priority = 1 WHERE id = (SELECT id FROM forge_jobs WHERE name = 'lost' LIMIT 1)")
                .update();
        jdbc.sql("""
                CREATE FUNCTION reject() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'object_in_use'; END $$
                """).update();
        jdbc.sql(
                        "CREATE %s reject AFTER UPDATE ON forge_jobs %s FOR EACH ROW WHEN (OLD.priority = 1) EXECUTE FUNCTION reject()"
                                .formatted(kind, kind.equals("TRIGGER") ? "" : "DEFERRABLE INITIALLY DEFERRED"))
                .update();
        try {
            jdbc.sql(
                            "UPDATE forge_nodes SET stale_at = last_heartbeat, dead_at = last_heartbeat + interval '50 milliseconds' WHERE id = ?")
                    .param(dead)
                    .update();
            await().until(() -> jdbc.sql("SELECT status FROM forge_nodes WHERE id = ?")
                    .param(dead)
                    .query(String.class)
                    .single()
                    .equals("dead"));
            await().until(() -> claimed() == 1);
        } finally {
            jdbc.sql("DROP FUNCTION reject() CASCADE").update();
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"raise_exception", "object_in_use", "undefined_table"})
    void job_whose_row_cannot_be_written_keeps_no_other_on_its_node(String condition) {
        work.sweep = Duration.ofHours(1);
        Member member = leader();
        insertClaimed(UUID.randomUUID(), 2_500);
        jdbc.sql("""
                UPDATE forge_jobs SET priority = 1
                WHERE id IN (SELECT id FROM forge_jobs WHERE name = 'lost' ORDER BY id LIMIT 3 OFFSET 900)
                """).update();
        jdbc.sql("""
                CREATE FUNCTION reject() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN
                    IF OLD.priority = 1 THEN RAISE EXCEPTION 'no' USING ERRCODE = '%s'; END IF;
                    RETURN NEW;
                END $$
                """.formatted(condition)).update();
        jdbc.sql("CREATE TRIGGER reject BEFORE UPDATE ON forge_jobs FOR EACH ROW EXECUTE FUNCTION reject()")
                .update();
        member.engine().sweep();
        assertThat(claimed()).isEqualTo(3);
        assertThat(logged(Level.WARN, "database rejected its recovery")).hasSize(1);
        jdbc.sql("DROP FUNCTION reject() CASCADE").update();
        member.engine().sweep();
        assertThat(claimed()).isZero();
    }
}
