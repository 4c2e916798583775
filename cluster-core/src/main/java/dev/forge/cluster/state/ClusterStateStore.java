// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.state;

import java.time.Duration;
import java.util.Optional;
import org.springframework.core.ParameterizedTypeReference;

/**
 * Stores values that any node can take exactly once: the state of a login in progress, a confirmation link, a nonce. Values are
 * kept as JSON in {@code forge_state} until they are taken or have expired by database time.
 *
 * <p>Each call commits by itself, independently of the caller's transaction. If a rollback restored a taken value, the value
 * could be used twice; if a stored value became visible only at the caller's commit, the next request might not find it.
 *
 * <p>A key has at most 500 characters, is not blank and contains no control characters. Keys that begin with {@code @oauth2/}
 * belong to OAuth2 logins. Everybody who can read the table can read the keys: if the key is the secret, as in a link, store its
 * hash instead.
 */
public interface ClusterStateStore {

    /**
     * Stores a value for that time.
     *
     * @return true if the value was stored; false if a value that is neither taken nor expired exists, which stays unchanged
     * @throws IllegalArgumentException if key, value or time cannot be stored; the limit of the value is {@code
     *     forge.cluster.job.max-payload-size}
     */
    boolean putOnce(String key, Object value, Duration timeToLive);

    /**
     * Takes a value. One caller in the whole cluster gets it. The value is consumed even if the caller then crashes.
     *
     * @return the value; empty if it was never stored, was taken, or has expired
     * @throws IllegalArgumentException if the value cannot be read as that type; it is consumed nevertheless
     */
    <T> Optional<T> takeOnce(String key, Class<T> type);

    /** Takes a value of a generic type: {@code new ParameterizedTypeReference<List<Order>>() {}}; see {@link #takeOnce(String, Class)}. */
    <T> Optional<T> takeOnce(String key, ParameterizedTypeReference<T> type);

    /** Returns a value without taking it. Another caller may take it right after. */
    <T> Optional<T> find(String key, Class<T> type);

    /** Returns a value of a generic type without taking it; see {@link #find(String, Class)}. */
    <T> Optional<T> find(String key, ParameterizedTypeReference<T> type);
}
