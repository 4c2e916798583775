package dev.forge.cluster.internal.state;

import dev.forge.cluster.internal.database.OwnTransactions;
import dev.forge.cluster.internal.database.Schema;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.function.Function;
import javax.sql.DataSource;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.support.TransactionSynchronizationManager;
import org.springframework.transaction.support.TransactionTemplate;

/** The rows of {@code forge_state}. A row is live until it expires; taking it is deleting it, so that one taker wins. */
public final class StateStore {

    /** Keys of pending OAuth2 logins begin with it. The index forge_state_logins repeats it. */
    public static final String LOGIN = "@oauth2/";

    private final Schema schema;
    private final Apart application;
    private final Apart control;

    /**
     * @param application serves callers that are in no transaction: requests are answered while the node leaves, when its
     *     control connections are closed already
     * @param control serves those that are: each of them holding one connection of a pool and waiting for another could
     *     wait for each other
     */
    public StateStore(Schema schema, DataSource application, DataSource control) {
        this.schema = schema;
        this.application = Apart.on(application);
        this.control = Apart.on(control);
    }

    /** Whether it is there now and was not before. */
    public boolean put(String key, String json, Duration timeToLive) {
        return apart(jdbc -> jdbc.sql(schema.sql("""
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

    /** What became of a login that was to be put. */
    public enum Put {
        STORED,
        KEY_TAKEN,
        FULL
    }

    /**
     * Puts a pending login unless so many are pending already. Logins that begin at the same moment do not see each other,
     * so their number may exceed the limit by that of the connections.
     *
     * @param key begins with {@link #LOGIN}
     */
    public Put putLogin(String key, String json, Duration timeToLive, int most) {
        return apart(jdbc -> jdbc.sql(schema.sql("""
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

    /** How many logins are pending; that many at most. */
    public long pendingLogins(int most) {
        return control.run(
                jdbc -> jdbc.sql(schema.sql("""
                SELECT count(*) FROM (
                    SELECT FROM ~.forge_state
                    WHERE state_key LIKE '@oauth2/%' AND expires_at > statement_timestamp() LIMIT ?) pending
                """)).param(most).query(Long.class).single());
    }

    /** The value, if nobody has taken it; nobody can from now on. */
    public Optional<String> take(String key) {
        return apart(jdbc -> jdbc.sql(schema.sql("""
                DELETE FROM ~.forge_state WHERE state_key = ? AND expires_at > clock_timestamp()
                RETURNING state_value::text
                """))
                .param(key)
                .query((row, n) -> row.getString(1))
                .optional());
    }

    /** The value, left where it is. */
    public Optional<String> find(String key) {
        return apart(jdbc -> jdbc.sql(schema.sql("""
                SELECT state_value::text FROM ~.forge_state WHERE state_key = ? AND expires_at > clock_timestamp()
                """))
                .param(key)
                .query((row, n) -> row.getString(1))
                .optional());
    }

    /** Deletes that many expired rows at most. Whoever replaces one at this moment keeps it. */
    public int purge(int batch) {
        return control.run(jdbc -> jdbc.sql(schema.sql("""
                DELETE FROM ~.forge_state WHERE state_key = ANY (ARRAY(
                    SELECT state_key FROM ~.forge_state WHERE expires_at <= clock_timestamp()
                    ORDER BY expires_at LIMIT ? FOR UPDATE SKIP LOCKED))
                """)).param(batch).update());
    }

    private <T> T apart(Function<JdbcClient, T> work) {
        return (TransactionSynchronizationManager.isSynchronizationActive() ? control : application).run(work);
    }

    /** A transaction for each statement, whatever the caller is in and the pool's defaults are. */
    private record Apart(JdbcClient jdbc, TransactionTemplate transaction) {

        static Apart on(DataSource source) {
            var transaction = new TransactionTemplate(new OwnTransactions(source));
            transaction.setPropagationBehavior(TransactionDefinition.PROPAGATION_REQUIRES_NEW);
            return new Apart(JdbcClient.create(source), transaction);
        }

        <T> T run(Function<JdbcClient, T> work) {
            return Objects.requireNonNull(transaction.execute(status -> work.apply(jdbc)));
        }
    }
}
