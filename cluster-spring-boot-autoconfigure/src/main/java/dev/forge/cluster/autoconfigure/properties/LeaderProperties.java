package dev.forge.cluster.autoconfigure.properties;

import static dev.forge.cluster.autoconfigure.properties.PropertyRules.positive;
import static dev.forge.cluster.autoconfigure.properties.PropertyRules.require;
import static dev.forge.cluster.autoconfigure.properties.PropertyRules.shorter;

import dev.forge.cluster.leader.LeaderStrategy;
import java.time.Duration;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * How leaders are elected.
 *
 * @param strategy Advisory-lock, lease, or auto: advisory-lock unless a transaction pooler is in between.
 * @param checkInterval Pause between two tries of a candidate.
 * @param leaseDuration How long a leader may lead without renewing.
 * @param renewInterval Pause between two renewals.
 */
public record LeaderProperties(
        @DefaultValue("auto") LeaderStrategy strategy,
        @DefaultValue("250ms") Duration checkInterval,
        @DefaultValue("5s") Duration leaseDuration,
        @DefaultValue("1s") Duration renewInterval) {

    /** A leader without a good round trip for this long stops believing that it leads. */
    public static final Duration LOCAL_DEADLINE = Duration.ofSeconds(3);
    /** The server frees the locks of a session that was cut off after this long. */
    static final Duration SERVER_RELEASE = Duration.ofSeconds(7);

    public LeaderProperties {
        positive("leader.check-interval", checkInterval);
        positive("leader.lease-duration", leaseDuration);
        positive("leader.renew-interval", renewInterval);
        shorter("leader.renew-interval", renewInterval, "leader.lease-duration", leaseDuration);
        // The order in which a leader that was cut off loses power: by itself, by its lease, by the server.
        require(
                leaseDuration.compareTo(LOCAL_DEADLINE) > 0,
                "leader.lease-duration",
                leaseDuration,
                "must be longer than the %s after which a leader without the database stops by itself"
                        .formatted(PropertyRules.text(LOCAL_DEADLINE)));
        require(
                leaseDuration.compareTo(SERVER_RELEASE) < 0,
                "leader.lease-duration",
                leaseDuration,
                "must be shorter than the %s after which the server frees the locks of a lost session"
                        .formatted(PropertyRules.text(SERVER_RELEASE)));
        require(
                renewInterval.compareTo(LOCAL_DEADLINE) < 0,
                "leader.renew-interval",
                renewInterval,
                "must be shorter than the %s after which a leader without the database stops by itself"
                        .formatted(PropertyRules.text(LOCAL_DEADLINE)));
    }
}
