package dev.forge.cluster.internal.engine;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.NodeIdentity;
import dev.forge.cluster.NodeIdentityProvider;
import dev.forge.cluster.internal.store.NodeStore;
import dev.forge.cluster.internal.store.NodeStore.Introduction;
import java.time.Duration;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.dao.DataAccessException;
import org.springframework.scheduling.TaskScheduler;

/**
 * This process as a member of the cluster. Alone decides which loops run, and in what order they start and stop.
 *
 * <p>A member's id lives as long as its membership: leaving and joining again, or being declared dead while alive, makes
 * a new id, so that nothing which the former one held can be mistaken for held.
 */
public final class Node {

    private static final Logger log = LoggerFactory.getLogger(Node.class);
    private static final Duration STOP_PATIENCE = Duration.ofSeconds(5);

    private final NodeSettings settings;
    private final NodeIdentityProvider identities;
    private final NodeStore nodes;
    private final Loop heartbeat;
    private volatile @Nullable UUID id;
    private volatile NodeIdentity identity;

    public Node(NodeSettings settings, NodeIdentityProvider identities, NodeStore nodes, TaskScheduler scheduler) {
        this.settings = settings;
        this.identities = identities;
        this.nodes = nodes;
        this.identity = identities.identity();
        this.heartbeat = new Loop("heartbeat", settings::heartbeat, this::beat, scheduler);
    }

    /** Joins the cluster; returns when the others can see this node. */
    public void start() {
        join();
        heartbeat.start();
    }

    /** Leaves the cluster. Others see it at once, unless the database is out of reach: then when our deadline passes. */
    public void stop() {
        UUID leaving = id;
        if (leaving == null) {
            return;
        }
        try {
            heartbeat.stop(STOP_PATIENCE);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        id = null;
        try {
            nodes.remove(leaving);
        } catch (DataAccessException e) {
            log.warn("node {}: left without saying so; the others will find out", leaving, e);
        }
    }

    /** The id of the present membership; null while the node is not a member. */
    public @Nullable UUID id() {
        return id;
    }

    /** Who the node says it is. */
    public NodeIdentity identity() {
        return identity;
    }

    private void join() {
        identity = identities.identity();
        UUID joining = UUID.randomUUID();
        var introduction = new Introduction(
                joining,
                identity,
                settings.hostname(),
                settings.roles(),
                settings.capabilities(),
                settings.version(),
                settings.info());
        switch (nodes.register(introduction, settings.deadlines())) {
            case REGISTERED -> id = joining;
            case KEY_TAKEN ->
                throw new ClusterStartupException(
                        "forge.cluster.node.id (%s) belongs to a live node of this cluster".formatted(identity.id()),
                        "Give each instance an id of its own, or none: it is generated then.");
        }
    }

    // Package-private: a test calls a pass without waiting for the loop.
    void beat() {
        UUID beating = id;
        if (beating == null) {
            return;
        }
        switch (nodes.beat(beating, settings.deadlines())) {
            case SEEN -> {}
            case DECLARED_DEAD -> {
                log.warn("node {}: the cluster declared this node dead; it joins again with a new id", beating);
                join();
            }
        }
    }
}
