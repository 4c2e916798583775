package dev.forge.cluster.autoconfigure.actuate;

import dev.forge.cluster.internal.lock.LockStore;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.actuate.endpoint.InvalidEndpointRequestException;
import org.springframework.boot.actuate.endpoint.SecurityContext;

/**
 * {@code /actuator/forgecluster/locks}: locks that are held, those of the latest holders first. The name of a lock may carry
 * data of the application, such as a customer's number, and is treated like any other value.
 */
final class LocksResource {

    private static final int DEFAULT_LIMIT = 50;
    private static final int LARGEST_LIMIT = 1_000;

    private final LockStore locks;
    private final JobsResource values;

    /** @param values cleans what is shown, as it does that of jobs */
    LocksResource(LockStore locks, JobsResource values) {
        this.locks = locks;
        this.values = values;
    }

    Map<String, Object> list(@Nullable Integer limit, SecurityContext reader) {
        int most = limit == null ? DEFAULT_LIMIT : limit;
        if (most < 1 || most > LARGEST_LIMIT) {
            String message = "limit %d is not between 1 and %d".formatted(most, LARGEST_LIMIT);
            throw new InvalidEndpointRequestException(message, message);
        }
        boolean shown = values.isShown(reader);
        return Map.of(
                "locks",
                locks.held(most).stream().map(lock -> view(lock, shown)).toList());
    }

    private Map<String, Object> view(LockStore.Held lock, boolean shown) {
        var view = new LinkedHashMap<String, Object>();
        Object name = values.clean("lock", lock.name(), shown);
        if (name != null) {
            view.put("name", name);
        }
        view.put("owner", lock.owner());
        view.put("token", lock.token());
        view.put("lockedAt", lock.lockedAt());
        view.put("expiresAt", lock.expiresAt());
        return view;
    }
}
