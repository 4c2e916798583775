// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.state;

import dev.forge.cluster.internal.database.CallerTransaction;
import dev.forge.cluster.internal.database.OwnTransactions;
import dev.forge.cluster.internal.database.Schema;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.function.Function;
import javax.sql.DataSource;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.transaction.support.TransactionTemplate;

/** One-time values in {@code forge_state}. A value exists until it expires; taking it deletes its row, so that one caller gets it. */
public final class StateStore {

    /** The prefix of the keys of pending OAuth2 logins, which the index forge_state_logins repeats. */
    public static final String LOGIN = "@oauth2/";

    private final Schema schema;
    private final CallerTransaction caller;
    private final SeparateTransactions application;
    private final SeparateTransactions control;

    /**
     * @param application serves callers that keep no connection: requests are still served while the node leaves and its control
     *     connections are closed already
     * @param control serves callers that keep one, in a transaction or in a callback after its end: if each of them held one
     *     connection of the application's pool and waited for another, they could wait for each other
     */
    public StateStore(Schema schema, DataSource application, DataSource control) {
        this.schema = schema;
        this.caller = new CallerTransaction(application);
        this.application = SeparateTransactions.on(application);
        this.control = SeparateTransactions.on(control);
    }

    /** Puts a value; returns false if there is one already. */
    public boolean put(String key, String json, Duration timeToLive) {
        return separately(jdbc -> jdbc.sql(schema.sql("""
                        INSERT INTO ~.forge_state AS s (state_key, state_value, created_at, expires_at)
                        VALUES (:key, :json::jsonb, clock_timestamp(), clock_timestamp() + :ttl * interval '1 millisecond')
                        ON CONFLICT (state_key) DO UPDATE
                        SET state_value = excluded.state_value, created_at = clock_timestamp(),
                            expires_at = clock_timestamp() + :ttl * interval '1 millisecond'
                        WHERE s.expires_at <= clock_timestamp()
                        """))
                        .param("key", key)
                        .param("json", json)
                        .param("ttl", timeToLive.toMillis())
                        .update())
                == 1;
    }

    /** The outcome of an attempt to put a login. */
    public enum Put {
        STORED,
        KEY_TAKEN,
        FULL
    }

    /**
     * Puts a pending login, unless {@code most} logins are pending. Logins that begin at the same moment do not see each other, so
     * their number may exceed the limit by the number of connections.
     *
     * @param key begins with {@link #LOGIN}
     */
    public Put putLogin(String key, String json, Duration timeToLive, int most) {
        return separately(jdbc -> jdbc.sql(schema.sql("""
                WITH room AS (
                    SELECT count(*) < :most AS free FROM (
                        SELECT FROM ~.forge_state
                        WHERE state_key LIKE '@oauth2/%' AND expires_at > statement_timestamp() LIMIT :most) pending),
                put AS (
                    INSERT INTO ~.forge_state AS s (state_key, state_value, created_at, expires_at)
                    SELECT :key, :json::jsonb, clock_timestamp(), clock_timestamp() + :ttl * interval '1 millisecond'
                    FROM room WHERE free
                    ON CONFLICT (state_key) DO UPDATE
                    SET state_value = excluded.state_value, created_at = excluded.created_at,
                        expires_at = excluded.expires_at
                    WHERE s.expires_at <= clock_timestamp()
                    RETURNING 1)
                SELECT free, EXISTS (SELECT FROM put) FROM room
                """))
                .param("most", most)
                .param("key", key)
                .param("json", json)
                .param("ttl", timeToLive.toMillis())
                .query((row, n) -> row.getBoolean(2) ? Put.STORED : row.getBoolean(1) ? Put.KEY_TAKEN : Put.FULL)
                .single());
    }

    /** Counts pending logins, up to {@code most}. */
    public long pendingLogins(int most) {
        return control.run(
                jdbc -> jdbc.sql(schema.sql("""
                SELECT count(*) FROM (
                    SELECT FROM ~.forge_state
                    WHERE state_key LIKE '@oauth2/%' AND expires_at > statement_timestamp() LIMIT ?) pending
                """)).param(most).query(Long.class).single());
    }

    /** Takes a value; empty if it has expired or was taken. */
    public Optional<String> take(String key) {
        return separately(jdbc -> jdbc.sql(schema.sql("""
                DELETE FROM ~.forge_state WHERE state_key = ? AND expires_at > clock_timestamp()
                RETURNING state_value::text
                """))
                .param(key)
                .query((row, n) -> row.getString(1))
                .optional());
    }

    /** Returns a value without taking it. */
    public Optional<String> find(String key) {
        return separately(jdbc -> jdbc.sql(schema.sql("""
                SELECT state_value::text FROM ~.forge_state WHERE state_key = ? AND expires_at > clock_timestamp()
                """))
                .param(key)
                .query((row, n) -> row.getString(1))
                .optional());
    }

    /** Deletes up to that many expired rows. A row that is replaced at the same moment stays. */
    public int purge(int batch) {
        // Not clock_timestamp(): an index cannot be searched for a value that changes during the search.
        return control.run(jdbc -> jdbc.sql(schema.sql("""
                DELETE FROM ~.forge_state WHERE state_key = ANY (ARRAY(
                    SELECT state_key FROM ~.forge_state WHERE expires_at <= statement_timestamp()
                    ORDER BY expires_at LIMIT ? FOR UPDATE SKIP LOCKED))
                """)).param(batch).update());
    }

    private <T> T separately(Function<JdbcClient, T> work) {
        return (caller.keepsConnection() ? control : application).run(work);
    }

    /** Runs each statement in a transaction of its own, independent of the caller's transaction and the pool's defaults. */
    private record SeparateTransactions(JdbcClient jdbc, TransactionTemplate transaction) {

        static SeparateTransactions on(DataSource source) {
            return new SeparateTransactions(JdbcClient.create(source), OwnTransactions.separate(source));
        }

        <T> T run(Function<JdbcClient, T> work) {
            return Objects.requireNonNull(transaction.execute(status -> work.apply(jdbc)));
        }
    }
}
