// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package limits;

import dev.forge.cluster.test.postgres.TestDatabase;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import limits.LimitAuditor.Hold;
import limits.LimitAuditor.Snapshot;
import org.springframework.jdbc.core.simple.JdbcClient;

/**
 * Records claims and ends of jobs in a table that a trigger fills, in the transactions that claim and end them. The trigger only
 * inserts rows, without an index: it makes no claim wait for another one.
 */
final class LimitJournal {

    private final JdbcClient jdbc;

    private LimitJournal(JdbcClient jdbc) {
        this.jdbc = jdbc;
    }

    /** Begins to record. The schema of the cluster must exist. */
    static LimitJournal begin(TestDatabase database) {
        database.jdbc().sql("""
                CREATE SCHEMA audit;
                CREATE TABLE audit.journal (
                    event text NOT NULL, job uuid NOT NULL, epoch bigint NOT NULL, transaction xid8 NOT NULL, seen pg_snapshot,
                    status text);
                CREATE FUNCTION audit.record() RETURNS trigger LANGUAGE plpgsql AS $$
                DECLARE
                    was_held CONSTANT boolean := OLD.status IN ('claimed', 'running');
                    is_held CONSTANT boolean := TG_OP = 'UPDATE' AND NEW.status IN ('claimed', 'running');
                BEGIN
                    IF was_held AND NOT (is_held AND NEW.claim_epoch = OLD.claim_epoch) THEN
                        INSERT INTO audit.journal VALUES ('released', OLD.id, OLD.claim_epoch, pg_current_xact_id());
                    END IF;
                    IF is_held AND NOT (was_held AND NEW.claim_epoch = OLD.claim_epoch) THEN
                        INSERT INTO audit.journal
                        VALUES ('claimed', NEW.id, NEW.claim_epoch, pg_current_xact_id(), pg_current_snapshot());
                    END IF;
                    IF TG_OP = 'DELETE' THEN
                        INSERT INTO audit.journal VALUES ('deleted', OLD.id, OLD.claim_epoch, pg_current_xact_id());
                    ELSIF NEW.status NOT IN ('pending', 'claimed', 'running') THEN
                        INSERT INTO audit.journal
                        VALUES ('ended', NEW.id, NEW.claim_epoch, pg_current_xact_id(), NULL, NEW.status);
                    END IF;
                    RETURN NULL;
                END
                $$;
                CREATE TRIGGER audit AFTER UPDATE OF status, claim_epoch OR DELETE ON forge_jobs
                    FOR EACH ROW EXECUTE FUNCTION audit.record()
                """).update();
        return new LimitJournal(database.jdbc());
    }

    /** Removes the exact count from the function that picks jobs, to show that the auditor finds what it is there for. */
    static void countInexactly(TestDatabase database) {
        String function = database.jdbc()
                .sql("SELECT pg_get_functiondef('forge_pick_jobs'::regproc)")
                .query(String.class)
                .single();
        String exact = "l.group_concurrency - m.held";
        if (!function.contains(exact)) {
            throw new IllegalStateException("forge_pick_jobs has no '%s'".formatted(exact));
        }
        database.jdbc().sql(function.replace(exact, "l.group_concurrency")).update();
    }

    /** A group of jobs of one name. */
    record Group(String name, String group) {}

    /** Returns the claims of the jobs, by name and group. */
    Map<Group, List<Hold>> holds() {
        var holds = new HashMap<Group, List<Hold>>();
        jdbc.sql("""
                SELECT j.name, j.job_group, c.job, c.epoch, c.transaction::text, c.seen::text, r.transaction::text
                FROM audit.journal c JOIN forge_jobs j ON j.id = c.job
                LEFT JOIN audit.journal r ON r.event = 'released' AND r.job = c.job AND r.epoch = c.epoch
                WHERE c.event = 'claimed'
                """).query(row -> {
            String released = row.getString(7);
            holds.computeIfAbsent(new Group(row.getString(1), row.getString(2)), group -> new ArrayList<>())
                    .add(new Hold(
                            row.getObject(3, UUID.class),
                            row.getLong(4),
                            Long.parseLong(row.getString(5)),
                            Snapshot.parse(row.getString(6)),
                            released == null ? null : Long.valueOf(released)));
        });
        return holds;
    }

    /** Returns the jobs of an ordered name in the order in which they were enqueued, by group. */
    Map<Group, List<UUID>> order(String name) {
        var order = new HashMap<Group, List<UUID>>();
        jdbc.sql("SELECT job_group, id FROM forge_jobs WHERE name = ? ORDER BY created_at, id")
                .param(name)
                .query(row -> {
                    order.computeIfAbsent(new Group(name, row.getString(1)), group -> new ArrayList<>())
                            .add(row.getObject(2, UUID.class));
                });
        return order;
    }

    /** Returns the transactions that ended jobs. */
    Map<UUID, Long> ended() {
        var ended = new HashMap<UUID, Long>();
        jdbc.sql("SELECT job, transaction::text FROM audit.journal WHERE event = 'ended'")
                .query(row -> {
                    ended.put(row.getObject(1, UUID.class), Long.valueOf(row.getString(2)));
                });
        return ended;
    }

    /** Returns the number of jobs that did not end exactly once, with success. */
    long wrongEnds() {
        return jdbc.sql("""
                SELECT count(*) FROM (
                    SELECT j.id FROM forge_jobs j LEFT JOIN audit.journal e ON e.job = j.id AND e.event IN ('ended', 'deleted')
                    GROUP BY j.id HAVING count(e.job) <> 1 OR min(e.status) <> 'completed') AS wrong
                """).query(Long.class).single();
    }
}
