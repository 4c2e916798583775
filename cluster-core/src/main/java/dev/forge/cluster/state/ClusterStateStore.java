package dev.forge.cluster.state;

import java.time.Duration;
import java.util.Optional;

/**
 * Values that one node puts down and any one node picks up, once: the state of a login under way, a confirmation link, a
 * nonce. Kept in {@code forge_state} as JSON, until they are taken or have expired by database time.
 *
 * <p>Each call commits by itself, apart from a transaction of the caller's: were a taken value put back by a rollback, it
 * could be used twice; were a value put down in a transaction that has not committed, the next request would not find it.
 *
 * <p>A key is at most 500 characters long, not blank, and holds no control characters; keys that begin with {@code @oauth2/}
 * are those of OAuth2 logins. Whoever can read the table can read keys: where the key is the secret, as in a link, use its
 * hash.
 */
public interface ClusterStateStore {

    /**
     * Puts a value down for that long. False, and nothing has changed, if a live value is there; an expired or a taken one
     * is none.
     *
     * @throws IllegalArgumentException if key, value or time cannot be stored, saying why; the value's limit is
     *     {@code forge.cluster.job.max-payload-size}
     */
    boolean putOnce(String key, Object value, Duration timeToLive);

    /**
     * Takes the value. However many ask, in the whole cluster, one gets it; who crashes with it has taken it. Empty if it
     * was never there, was taken, or has expired.
     *
     * @throws IllegalArgumentException if the value cannot be read as that type; it is gone all the same
     */
    <T> Optional<T> takeOnce(String key, Class<T> type);

    /** Looks at the value and leaves it there. What is seen may be another's a moment later. */
    <T> Optional<T> find(String key, Class<T> type);
}
