package dev.forge.cluster.autoconfigure.actuate;

import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.autoconfigure.ClusterLifecycle;
import dev.forge.cluster.daemon.DaemonInfo;
import dev.forge.cluster.daemon.Daemons;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.actuate.endpoint.InvalidEndpointRequestException;
import org.springframework.boot.actuate.endpoint.SanitizableData;
import org.springframework.boot.actuate.endpoint.Sanitizer;
import org.springframework.boot.actuate.endpoint.SecurityContext;

/**
 * {@code /actuator/forgecluster/daemons}. Notes and errors pass the application's sanitizing functions, and are masked
 * altogether unless values are to be shown.
 */
final class DaemonsResource {

    private final Daemons daemons;
    private final Sanitizer sanitizer;
    private final ClusterEndpointProperties properties;

    DaemonsResource(Daemons daemons, Sanitizer sanitizer, ClusterEndpointProperties properties) {
        this.daemons = daemons;
        this.sanitizer = sanitizer;
        this.properties = properties;
    }

    /** How many instances there are, by status. */
    Map<String, Long> counts() {
        var counts = new TreeMap<String, Long>();
        daemons.list().stream()
                .flatMap(daemon -> daemon.instances().stream())
                .forEach(instance -> counts.merge(ClusterLifecycle.word(instance.status()), 1L, Long::sum));
        return counts;
    }

    Map<String, Object> list(SecurityContext reader) {
        boolean shown = isShown(reader);
        return Map.of(
                "daemons",
                daemons.list().stream().map(daemon -> view(daemon, shown)).toList());
    }

    /** One daemon; null if there is none of that name. */
    @Nullable
    Object one(String name, SecurityContext reader) {
        boolean shown = isShown(reader);
        return daemons.find(name).map(daemon -> view(daemon, shown)).orElse(null);
    }

    private boolean isShown(SecurityContext reader) {
        return properties.showValues().isShown(reader, properties.roles());
    }

    private Map<String, Object> view(DaemonInfo daemon, boolean shown) {
        var view = new LinkedHashMap<String, Object>();
        view.put("name", daemon.name());
        view.put("scope", ClusterLifecycle.word(daemon.scope()));
        view.put("paused", daemon.paused());
        view.put("candidates", daemon.candidates());
        view.put(
                "instances",
                daemon.instances().stream()
                        .map(instance -> view(instance, shown))
                        .toList());
        return view;
    }

    private Map<String, Object> view(DaemonInfo.Instance instance, boolean shown) {
        var view = new LinkedHashMap<String, Object>();
        view.put("instance", instance.number());
        view.put("status", ClusterLifecycle.word(instance.status()));
        put(view, "node", instance.nodeId());
        put(view, "nodeName", instance.nodeName());
        view.put("term", instance.term());
        put(view, "startedAt", instance.startedAt());
        view.put("restarts", instance.restarts());
        put(view, "note", clean("note", instance.note(), shown));
        put(view, "error", clean("error", instance.lastError(), shown));
        return view;
    }

    private static void put(Map<String, Object> view, String key, @Nullable Object value) {
        if (value != null) {
            view.put(key, value);
        }
    }

    private @Nullable Object clean(String key, @Nullable Object value, boolean shown) {
        return value == null ? null : sanitizer.sanitize(new SanitizableData(null, key, value), shown);
    }

    /** An order to a daemon; null if there is none of that name. */
    @Nullable
    Object order(String name, String state) {
        try {
            Optional<DaemonInfo> daemon = switch (state) {
                case "paused" -> daemons.pause(name);
                case "running" -> daemons.resume(name);
                default -> {
                    String message =
                            "state '%s' of a daemon cannot be ordered; 'paused' and 'running' can".formatted(state);
                    throw new InvalidEndpointRequestException(message, message);
                }
            };
            return daemon.isPresent() ? Map.of("name", name, "state", state) : null;
        } catch (MutationRefusedException e) {
            throw new InvalidEndpointRequestException(String.valueOf(e.getMessage()), "Refused", e);
        }
    }
}
