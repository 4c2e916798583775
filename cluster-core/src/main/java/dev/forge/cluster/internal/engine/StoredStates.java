package dev.forge.cluster.internal.engine;

import dev.forge.cluster.ClusterStateStore;
import dev.forge.cluster.PayloadCodec;
import dev.forge.cluster.internal.store.StateStore;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;

/** {@link ClusterStateStore} on {@code forge_state}. */
public final class StoredStates implements ClusterStateStore {

    private static final int LONGEST_KEY = 500;
    private static final Duration SHORTEST = Duration.ofMillis(1);
    private static final Duration LONGEST = Duration.ofDays(36_525);

    private final Runnable permission;
    private final StateStore states;
    private final JobJson json;

    /** For the application: what may not change the cluster may not put or take. */
    public StoredStates(Node node, StateStore states, PayloadCodec codec, int maxBytes) {
        this(node::requireMayMutate, states, codec, maxBytes);
    }

    /** For what every node does that serves requests, an observer too. */
    public static StoredStates ofAnyNode(StateStore states, PayloadCodec codec, int maxBytes) {
        return new StoredStates(() -> {}, states, codec, maxBytes);
    }

    private StoredStates(Runnable permission, StateStore states, PayloadCodec codec, int maxBytes) {
        this.permission = permission;
        this.states = states;
        this.json = new JobJson(codec, maxBytes);
    }

    @Override
    public boolean putOnce(String key, Object value, Duration timeToLive) {
        Arguments.required("ClusterStateStore.putOnce", "key", key);
        Arguments.required("ClusterStateStore.putOnce", "value", value);
        Arguments.required("ClusterStateStore.putOnce", "timeToLive", timeToLive);
        requireStorable(key);
        if (timeToLive.compareTo(SHORTEST) < 0 || timeToLive.compareTo(LONGEST) > 0) {
            throw new IllegalArgumentException(
                    "a state that lives for %s; it must lie between a millisecond and a hundred years"
                            .formatted(timeToLive));
        }
        permission.run();
        return states.put(key, text(value), timeToLive);
    }

    private String text(Object value) {
        try {
            return json.write(value);
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException(
                    "the value of a state (%s) %s".formatted(value.getClass().getName(), e.getMessage()), e);
        }
    }

    @Override
    public <T> Optional<T> takeOnce(String key, Class<T> type) {
        Arguments.required("ClusterStateStore.takeOnce", "key", key);
        Arguments.required("ClusterStateStore.takeOnce", "type", type);
        requireStorable(key);
        requireObject(type);
        permission.run();
        return states.take(key).map(text -> value(text, type));
    }

    @Override
    public <T> Optional<T> find(String key, Class<T> type) {
        Arguments.required("ClusterStateStore.find", "key", key);
        Arguments.required("ClusterStateStore.find", "type", type);
        requireStorable(key);
        requireObject(type);
        return states.find(key).map(text -> value(text, type));
    }

    // Without the key, which may be a secret, and without the value.
    private <T> T value(String text, Class<T> type) {
        try {
            return Objects.requireNonNull(json.readAs(text, type), "it is null");
        } catch (RuntimeException e) {
            throw new IllegalArgumentException("a state cannot be read as " + type.getName(), e);
        }
    }

    // Before it is taken, not when it is read.
    private static void requireObject(Class<?> type) {
        if (type.isPrimitive()) {
            throw new IllegalArgumentException("a state is read as an object, not as " + type);
        }
    }

    private static void requireStorable(String key) {
        if (key.isBlank()) {
            throw new IllegalArgumentException("a state needs a key");
        }
        if (key.length() > LONGEST_KEY) {
            throw new IllegalArgumentException(
                    "a state's key of %d characters; at most %d".formatted(key.length(), LONGEST_KEY));
        }
        try {
            // A backslash begins an escape in JSON only.
            JobJson.requireStorable(key.replace('\\', '/'));
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException("a state's key " + e.getMessage(), e);
        }
    }
}
