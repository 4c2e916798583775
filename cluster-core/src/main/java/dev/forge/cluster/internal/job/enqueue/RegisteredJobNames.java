// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.enqueue;

import dev.forge.cluster.internal.database.CallerTransaction;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.job.handler.OwnedJobs;
import dev.forge.cluster.internal.job.row.JobNameStore;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.internal.runtime.ReservedPrefix;
import dev.forge.cluster.internal.runtime.Uninterrupted;
import dev.forge.cluster.job.UnknownJobException;
import java.time.Duration;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import java.util.stream.Stream;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.dao.TransientDataAccessResourceException;

/**
 * The job names that applications may use: those for which a node of the cluster has registered a handler at some time. A job that
 * was enqueued with SQL does not register its name.
 */
public final class RegisteredJobNames {

    /** How many names a message lists. */
    private static final int LISTED_NAMES = 20;

    /** How long a list of names for messages is used. */
    private static final Duration LISTED_FOR = Duration.ofSeconds(1);

    private static final Duration PATIENCE = Duration.ofSeconds(2);

    /** How many names of handlers on other nodes are cached. */
    private static final int MOST_CACHED = 10_000;

    private final Node node;
    private final JobHandlers handlers;
    private final ReservedNames reserved;
    private final JobNameStore store;
    private final CallerTransaction separately;
    private final Set<String> cached = ConcurrentHashMap.newKeySet();
    private final ReentrantLock asking = new ReentrantLock();
    private volatile @Nullable Listing listing;

    private record Listing(String text, long readAt) {}

    /** @param control the data source of the cluster */
    public RegisteredJobNames(Node node, JobHandlers handlers, DataSource control) {
        this.node = node;
        this.handlers = handlers;
        this.reserved = new ReservedNames(node, handlers);
        this.store = new JobNameStore(node.resources().schema(), control);
        this.separately = new CallerTransaction(control);
    }

    ReservedNames reserved() {
        return reserved;
    }

    /** Rejects names that are reserved, or belong to jobs that only the cluster enqueues. */
    public void requireAllowed(String name) {
        NewJobFactory.requireStorable("job name", name);
        reserved.requireFreeName(name);
        String refusal = handlers.ofLeader().get(name);
        if (refusal != null) {
            throw new UnknownJobException("'%s' %s".formatted(name, refusal));
        }
    }

    /** Rejects names that are not allowed, and names for which no node has ever registered a handler. */
    public void requireRegistered(String name) {
        requireAllowed(name);
        if (handlers.named(name) != null || cached.contains(name)) {
            return;
        }
        requireRegisteredElsewhere(name);
        if (cached.size() < MOST_CACHED) {
            cached.add(name);
        }
    }

    /**
     * Asks the database, one caller at a time: clients that submit unknown names in great numbers must not occupy the connection that
     * locks and other users of the control connections need.
     */
    private void requireRegisteredElsewhere(String name) {
        // A handler that is interrupted to stop may still enqueue.
        Uninterrupted.call(() -> {
            if (!tryLock()) {
                throw new TransientDataAccessResourceException(
                        "Job '%s': too many callers ask whether an unknown job name is registered".formatted(name));
            }
            try {
                if (!separately.run(() -> store.hasHandler(name))) {
                    // Its message needs the database, too.
                    throw unknown(name);
                }
                return true;
            } finally {
                asking.unlock();
            }
        });
    }

    private boolean tryLock() {
        try {
            return asking.tryLock(PATIENCE.toMillis(), TimeUnit.MILLISECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    /**
     * Rejects names for which no node has ever registered a handler. Unlike {@link #requireRegistered}, allows names of jobs that only
     * the cluster enqueues, and of jobs that were enqueued with SQL and have not ended.
     */
    public void requireKnown(String name) {
        NewJobFactory.requireStorable("job name", name);
        if (!handlers.ofLeader().containsKey(name) && handlers.ownerOf(name).isEmpty()) {
            requireAllowed(name);
        }
        if (handlers.named(name) == null && !separately.run(() -> store.knows(name))) {
            throw unknown(name);
        }
    }

    private UnknownJobException unknown(String name) {
        return new UnknownJobException("Unknown job '%s': no handler has ever been registered. Registered jobs: %s"
                .formatted(name, registeredNames()));
    }

    private String registeredNames() {
        Listing latest = listing;
        if (latest == null || node.nanos() - latest.readAt > LISTED_FOR.toNanos()) {
            latest = new Listing(list(), node.nanos());
            listing = latest;
        }
        return latest.text;
    }

    private String list() {
        JobNameStore.FewNames everywhere = separately.run(() -> store.handledNames(LISTED_NAMES, reservedPrefixes()));
        // Names of this node first.
        var names = new LinkedHashSet<>(new TreeSet<>(handlers.names()));
        names.removeIf(name -> handlers.ownerOf(name).isPresent());
        names.addAll(everywhere.first().keySet());
        int all = Math.max(names.size(), everywhere.first().size() + everywhere.more());
        List<String> listed =
                names.stream().limit(LISTED_NAMES).map(Names::printable).toList();
        return all == listed.size() ? listed.toString() : "%s and %d more".formatted(listed, all - listed.size());
    }

    private List<String> reservedPrefixes() {
        return Stream.concat(
                        handlers.owned().stream().map(OwnedJobs::prefix),
                        node.components().reservedPrefixes().stream().map(ReservedPrefix::text))
                .toList();
    }
}
