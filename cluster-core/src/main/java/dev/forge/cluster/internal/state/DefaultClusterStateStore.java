// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.state;

import dev.forge.cluster.PayloadCodec;
import dev.forge.cluster.internal.node.Member;
import dev.forge.cluster.internal.runtime.Arguments;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.internal.runtime.PayloadJson;
import dev.forge.cluster.state.ClusterStateStore;
import java.lang.reflect.Type;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import org.springframework.core.ParameterizedTypeReference;

/** {@link ClusterStateStore} on {@code forge_state}. */
public final class DefaultClusterStateStore implements ClusterStateStore {

    private static final Duration SHORTEST = Duration.ofMillis(1);
    private static final Duration LONGEST = Duration.ofDays(36_525);

    private final Runnable permission;
    private final StateStore states;
    private final PayloadJson json;

    /** Creates a store for the application: a node that may not change the cluster may not put or take. */
    public DefaultClusterStateStore(Member member, StateStore states, PayloadCodec codec, int maxBytes) {
        this(member::requireMayMutate, states, codec, maxBytes);
    }

    /** Creates a store for requests that every node may serve, a node of mode observer included. */
    public static DefaultClusterStateStore ofAnyNode(StateStore states, PayloadCodec codec, int maxBytes) {
        return new DefaultClusterStateStore(() -> {}, states, codec, maxBytes);
    }

    private DefaultClusterStateStore(Runnable permission, StateStore states, PayloadCodec codec, int maxBytes) {
        this.permission = permission;
        this.states = states;
        this.json = new PayloadJson(codec, maxBytes);
    }

    @Override
    public boolean putOnce(String key, Object value, Duration timeToLive) {
        requirePut(key, value, timeToLive);
        if (key.startsWith(StateStore.LOGIN)) {
            // The value would count as a pending login.
            throw new IllegalArgumentException(
                    "key of a one-time state '%s': keys that begin with %s are reserved for logins"
                            .formatted(key, StateStore.LOGIN));
        }
        return states.put(key, text(value), timeToLive);
    }

    /**
     * Puts a pending login, unless {@code most} logins are pending in the cluster.
     *
     * @param key begins with {@link StateStore#LOGIN}
     */
    public StateStore.Put putLogin(String key, Object value, Duration timeToLive, int most) {
        requirePut(key, value, timeToLive);
        return states.putLogin(key, text(value), timeToLive, most);
    }

    private void requirePut(String key, Object value, Duration timeToLive) {
        Arguments.required("ClusterStateStore.putOnce", "key", key);
        Arguments.required("ClusterStateStore.putOnce", "value", value);
        Arguments.required("ClusterStateStore.putOnce", "timeToLive", timeToLive);
        requireStorable(key);
        if (timeToLive.compareTo(SHORTEST) < 0 || timeToLive.compareTo(LONGEST) > 0) {
            throw new IllegalArgumentException(
                    "ClusterStateStore.putOnce: timeToLive (%s) must be between one millisecond and a hundred years"
                            .formatted(timeToLive));
        }
        permission.run();
    }

    private String text(Object value) {
        try {
            return json.write(value);
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException(
                    "value of a one-time state (%s): %s"
                            .formatted(value.getClass().getName(), e.getMessage()),
                    e);
        }
    }

    @Override
    public <T> Optional<T> takeOnce(String key, Class<T> type) {
        Arguments.required("ClusterStateStore.takeOnce", "type", type);
        return take(key, type);
    }

    @Override
    public <T> Optional<T> takeOnce(String key, ParameterizedTypeReference<T> type) {
        Arguments.required("ClusterStateStore.takeOnce", "type", type);
        return take(key, type.getType());
    }

    private <T> Optional<T> take(String key, Type type) {
        Arguments.required("ClusterStateStore.takeOnce", "key", key);
        requireStorable(key);
        requireObject(type);
        permission.run();
        return states.take(key).map(text -> value(text, type));
    }

    @Override
    public <T> Optional<T> find(String key, Class<T> type) {
        Arguments.required("ClusterStateStore.find", "type", type);
        return look(key, type);
    }

    @Override
    public <T> Optional<T> find(String key, ParameterizedTypeReference<T> type) {
        Arguments.required("ClusterStateStore.find", "type", type);
        return look(key, type.getType());
    }

    private <T> Optional<T> look(String key, Type type) {
        Arguments.required("ClusterStateStore.find", "key", key);
        requireStorable(key);
        requireObject(type);
        return states.find(key).map(text -> value(text, type));
    }

    // The message has neither the key, which may be a secret, nor the value.
    @SuppressWarnings("TypeParameterUnusedInFormals") // The caller's class or type reference has this type.
    private <T> T value(String text, Type type) {
        try {
            return Objects.requireNonNull(json.readAs(text, type), "value is null");
        } catch (RuntimeException e) {
            throw new IllegalArgumentException("one-time state cannot be read as " + type.getTypeName(), e);
        }
    }

    // Checked before the value is taken: a taken value is deleted.
    private static void requireObject(Type type) {
        if (type instanceof Class<?> its && its.isPrimitive()) {
            throw new IllegalArgumentException("one-time state can only be read as an object type, not as " + type);
        }
    }

    private static void requireStorable(String key) {
        Names.require("key of a one-time state", key);
    }
}
