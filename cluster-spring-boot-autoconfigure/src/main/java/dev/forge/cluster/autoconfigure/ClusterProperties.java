package dev.forge.cluster.autoconfigure;

import static dev.forge.cluster.autoconfigure.PropertyRules.atLeast;
import static dev.forge.cluster.autoconfigure.PropertyRules.named;
import static dev.forge.cluster.autoconfigure.PropertyRules.notBlank;
import static dev.forge.cluster.autoconfigure.PropertyRules.notNegative;
import static dev.forge.cluster.autoconfigure.PropertyRules.notShorter;
import static dev.forge.cluster.autoconfigure.PropertyRules.positive;
import static dev.forge.cluster.autoconfigure.PropertyRules.require;
import static dev.forge.cluster.autoconfigure.PropertyRules.shorter;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.autoconfigure.job.JobProperties;
import dev.forge.cluster.autoconfigure.job.WorkerProperties;
import dev.forge.cluster.internal.runtime.NamePattern;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.leader.LeaderStrategy;
import dev.forge.cluster.leader.LostLeadership;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.node.NodeRole;
import java.nio.charset.StandardCharsets;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.ZoneId;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.NestedConfigurationProperty;
import org.springframework.boot.context.properties.bind.DefaultValue;
import org.springframework.util.unit.DataSize;

/**
 * Everything that can be configured. An unknown key under {@code forge.cluster} fails start-up like a wrong value does.
 *
 * @param enabled Whether this application takes part in a cluster. If not, its beans can be injected, but reject calls.
 * @param name Name of the cluster in logs, metrics and the endpoint; spring.application.name by default.
 * @param discovery How nodes find each other.
 * @param controlConnections Connections reserved for the cluster's own statements, beside the application's pool.
 */
@ConfigurationProperties(prefix = "forge.cluster", ignoreUnknownFields = false)
public record ClusterProperties(
        @DefaultValue("true") boolean enabled,
        @Nullable String name,
        @DefaultValue("postgres") Discovery discovery,
        @DefaultValue Schema schema,
        @DefaultValue DirectConnection directConnection,
        @DefaultValue("2") int controlConnections,
        @DefaultValue Node node,
        @DefaultValue Heartbeat heartbeat,
        @DefaultValue Detection detection,
        @DefaultValue Leader leader,
        @DefaultValue @NestedConfigurationProperty WorkerProperties worker,
        @DefaultValue @NestedConfigurationProperty JobProperties job,
        @DefaultValue Sweep sweep,
        @DefaultValue Cron cron,
        @DefaultValue Daemon daemon,
        @DefaultValue Shutdown shutdown,
        @DefaultValue Lock lock,
        @DefaultValue Startup startup,
        @DefaultValue RateLimit rateLimit,
        @DefaultValue Wakeup wakeup,
        @DefaultValue Web web,
        @DefaultValue OAuth2 oauth2,
        @DefaultValue Workflow workflow,
        @DefaultValue Health health) {

    /** A cluster of as many nodes is nothing special. */
    private static final int FEW_NODES = 10;

    public ClusterProperties {
        notBlank("name", name);
        atLeast(1, "control-connections", controlConnections);
        shorter("sweep.interval", sweep.interval, "job.lease-duration", job.leaseDuration());
        require(
                node.mode != NodeMode.LEADER || node.roles.contains(NodeRole.SCHEDULER),
                "node.mode",
                "leader",
                "needs the role scheduler, which %s lacks".formatted(named("node.roles", node.roles)));
    }

    /** What is allowed but unwise, in sentences for the log. */
    List<String> warnings() {
        var warnings = new ArrayList<String>();
        if (job.leaseDuration().compareTo(job.heartbeatInterval().multipliedBy(3)) < 0) {
            warnings.add("%s is less than three times %s: a single late heartbeat may cost a running job its claim"
                    .formatted(
                            named("job.lease-duration", job.leaseDuration()),
                            named("job.heartbeat-interval", job.heartbeatInterval())));
        }
        if (oauth2.enabled && oauth2.maxPerMinute > 0 && oauth2.pendingOfOneAddress() * FEW_NODES > oauth2.maxPending) {
            warnings.add(
                    "%s lets one client address keep %d logins pending on each node (%s): on %d nodes it reaches %s and closes the login for everybody"
                            .formatted(
                                    named("oauth2.max-per-minute", oauth2.maxPerMinute),
                                    oauth2.pendingOfOneAddress(),
                                    named("oauth2.ttl", oauth2.ttl),
                                    FEW_NODES,
                                    named("oauth2.max-pending", oauth2.maxPending)));
        }
        return warnings;
    }

    /** How nodes find each other. */
    public enum Discovery {
        /** Through the table of nodes. */
        POSTGRES
    }

    /**
     * Where the cluster's tables are.
     *
     * @param mode What to do when the schema is missing or behind: migrate installs it, validate refuses to start (and
     *     needs no Flyway), none believes that it is current.
     * @param name The schema that holds the cluster; the connection's current schema by default. One schema is one
     *     cluster.
     */
    public record Schema(
            @DefaultValue("migrate") SchemaMode mode,
            @Nullable String name) {
        public Schema {
            notBlank("schema.name", name);
            require(
                    name == null || name.getBytes(StandardCharsets.UTF_8).length <= 63,
                    "schema.name",
                    name,
                    "is longer than the 63 bytes of a PostgreSQL name");
        }
    }

    /**
     * How the dedicated connections reach the database.
     *
     * @param url JDBC URL of the dedicated connections, past a pooler; the DataSource's own by default.
     * @param username User of the dedicated connections; the DataSource's own by default.
     * @param password Password of the dedicated connections; the DataSource's own by default.
     */
    public record DirectConnection(
            @Nullable String url,
            @Nullable String username,
            @Nullable String password) {
        public DirectConnection {
            notBlank("direct-connection.url", url);
            require(
                    url != null || username == null,
                    "direct-connection.username",
                    username,
                    "needs forge.cluster.direct-connection.url");
            require(
                    url != null || password == null,
                    "direct-connection.password",
                    "***",
                    "needs forge.cluster.direct-connection.url");
        }

        @Override
        public String toString() {
            // Neither the password nor a URL's parameters, among which it may be.
            return "DirectConnection[url=%s, username=%s]"
                    .formatted(url == null ? null : url.replaceAll("\\?.*", ""), username);
        }
    }

    /**
     * Who this node is and what it does.
     *
     * @param id Stable identity of this node, unique among live nodes; generated by default.
     * @param name What people call this node; the host's name by default.
     * @param info Free text by key, shown to operators.
     * @param mode How the node takes part, on top of its roles.
     * @param roles What the node does for the cluster.
     * @param capabilities What kinds of work the node can do; a job may require one of them.
     * @param onLostLeadership What a node of mode leader does that has lost the leadership for longer than
     *     leader.lease-duration: it is not ready until it leads again, stands by, or exits.
     */
    public record Node(
            @Nullable String id,
            @Nullable String name,
            @DefaultValue Map<String, String> info,
            @DefaultValue("auto") NodeMode mode,

            @DefaultValue({"gateway", "function", "worker", "scheduler"})
            Set<NodeRole> roles,

            @DefaultValue("general") List<String> capabilities,
            @DefaultValue("not-ready") LostLeadership onLostLeadership) {
        public Node {
            notBlank("node.id", id);
            notBlank("node.name", name);
            info = Map.copyOf(info);
            roles = Collections.unmodifiableSet(new TreeSet<>(roles));
            capabilities = List.copyOf(capabilities);
            require(
                    !roles.isEmpty(),
                    "node.roles",
                    "",
                    "must name a role; a node that only looks on has mode observer");
            require(
                    capabilities.stream()
                            .noneMatch(capability ->
                                    capability.isBlank() || capability.chars().anyMatch(Character::isISOControl)),
                    "node.capabilities",
                    capabilities,
                    "must not have a blank entry or control characters");
            require(
                    capabilities.stream().noneMatch(capability -> capability.startsWith("@")),
                    "node.capabilities",
                    capabilities,
                    "must not begin with @: those are the cluster's own");
        }
    }

    /**
     * How a node shows that it lives.
     *
     * @param interval Pause between two heartbeats.
     * @param adaptive Whether the interval grows while the cluster does not change.
     * @param maxInterval How far an adaptive interval grows.
     * @param staleThreshold Silence after which the others call the node stale; at least twice its interval.
     * @param deadThreshold Silence after which the others call the node dead and take over what it held; at least three
     *     times its interval.
     */
    public record Heartbeat(
            @DefaultValue("5s") Duration interval,
            @DefaultValue("false") boolean adaptive,
            @DefaultValue("60s") Duration maxInterval,
            @DefaultValue("10s") Duration staleThreshold,
            @DefaultValue("15s") Duration deadThreshold) {
        public Heartbeat {
            positive("heartbeat.interval", interval);
            positive("heartbeat.max-interval", maxInterval);
            positive("heartbeat.stale-threshold", staleThreshold);
            positive("heartbeat.dead-threshold", deadThreshold);
            if (adaptive) {
                notShorter("heartbeat.max-interval", maxInterval, "heartbeat.interval", interval);
            }
            shorter("heartbeat.interval", interval, "heartbeat.stale-threshold", staleThreshold);
            shorter("heartbeat.stale-threshold", staleThreshold, "heartbeat.dead-threshold", deadThreshold);
            require(
                    deadThreshold.compareTo(interval.multipliedBy(3)) >= 0,
                    "heartbeat.dead-threshold",
                    deadThreshold,
                    "must be at least three times " + named("heartbeat.interval", interval));
        }
    }

    /**
     * How a dead node is noticed.
     *
     * @param interval Pause between two looks at the other nodes.
     * @param livenessLock Whether each node holds a session-bound lock, by whose absence a crash is seen in under a
     *     second.
     */
    public record Detection(
            @DefaultValue("250ms") Duration interval,
            @DefaultValue("true") boolean livenessLock) {
        public Detection {
            positive("detection.interval", interval);
        }
    }

    /**
     * How leaders are elected.
     *
     * @param strategy Advisory-lock, lease, or auto: advisory-lock unless a transaction pooler is in between.
     * @param checkInterval Pause between two tries of a candidate.
     * @param leaseDuration How long a leader may lead without renewing.
     * @param renewInterval Pause between two renewals.
     */
    public record Leader(
            @DefaultValue("auto") LeaderStrategy strategy,
            @DefaultValue("250ms") Duration checkInterval,
            @DefaultValue("5s") Duration leaseDuration,
            @DefaultValue("1s") Duration renewInterval) {

        /** A leader without a good round trip for this long stops believing that it leads. */
        static final Duration LOCAL_DEADLINE = Duration.ofSeconds(3);
        /** The server frees the locks of a session that was cut off after this long. */
        static final Duration SERVER_RELEASE = Duration.ofSeconds(7);

        public Leader {
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

    /**
     * How abandoned claims are found.
     *
     * @param interval Pause between two sweeps.
     * @param startupGrace How long after a start, an outage or a server restart nothing is swept;
     *     forge.cluster.job.lease-duration by default.
     */
    public record Sweep(
            @DefaultValue("10s") Duration interval,
            @Nullable Duration startupGrace) {
        public Sweep {
            positive("sweep.interval", interval);
            notNegative("sweep.startup-grace", startupGrace);
        }
    }

    /**
     * Defaults of crons.
     *
     * @param zone Time zone of cron expressions.
     * @param misfire What to do with slots that nobody could fire in time: skip, fire-once or catch-up.
     * @param misfireThreshold How late a slot may fire without being a misfire.
     * @param catchUpLimit How many missed slots catch-up fires at most.
     * @param maxConcurrentJobs How many runs of crons the leader works on at once; those for any worker do not count. By default
     *     4, or fewer if crons are transactional and the application's HikariCP pool is small.
     * @param retention How long it is kept in the ledger what became of slots.
     */
    public record Cron(
            @DefaultValue("UTC") String zone,
            @DefaultValue("fire-once") Misfire misfire,
            @DefaultValue("10s") Duration misfireThreshold,
            @DefaultValue("10") int catchUpLimit,
            @Nullable Integer maxConcurrentJobs,
            @DefaultValue("7d") Duration retention) {
        public Cron {
            positive("cron.retention", retention);
            atLeast(1, "cron.max-concurrent-jobs", maxConcurrentJobs);
            positive("cron.misfire-threshold", misfireThreshold);
            atLeast(1, "cron.catch-up-limit", catchUpLimit);
            require(catchUpLimit <= 1_000, "cron.catch-up-limit", catchUpLimit, "must be at most 1000");
            require(
                    ZoneId.getAvailableZoneIds().contains(zone) || isOffset(zone),
                    "cron.zone",
                    zone,
                    "is not a time zone");
        }

        private static boolean isOffset(String zone) {
            try {
                ZoneId.of(zone);
                return true;
            } catch (DateTimeException e) {
                return false;
            }
        }

        /** What to do with missed slots. */
        public enum Misfire {
            /** Nothing. */
            SKIP,
            /** Fire once for all of them. */
            FIRE_ONCE,
            /** Fire each of them. */
            CATCH_UP;

            public dev.forge.cluster.cron.Misfire policy() {
                return dev.forge.cluster.cron.Misfire.valueOf(name());
            }
        }
    }

    /**
     * Defaults of daemons.
     *
     * @param restartDelay Pause before a daemon that threw, or returned and may, is started again; twice as long each time
     *     that it ends soon, up to five minutes.
     * @param startupDelay For how long a node must have been up before it runs a daemon.
     * @param maxRestarts How many times in a row a daemon that threw is started again; without limit by default.
     */
    public record Daemon(
            @DefaultValue("5s") Duration restartDelay,
            @DefaultValue("0s") Duration startupDelay,
            @Nullable Integer maxRestarts) {
        public Daemon {
            positive("daemon.restart-delay", restartDelay);
            notNegative("daemon.startup-delay", startupDelay);
            atLeast(0, "daemon.max-restarts", maxRestarts);
        }
    }

    /**
     * How the node leaves.
     *
     * @param drainTimeout How long running work may take to finish before it is interrupted and given back.
     */
    public record Shutdown(@DefaultValue("30s") Duration drainTimeout) {
        public Shutdown {
            positive("shutdown.drain-timeout", drainTimeout);
        }
    }

    /**
     * Defaults of locks.
     *
     * @param leaseDuration How long a lock is held unless it is extended.
     */
    public record Lock(@DefaultValue("60s") Duration leaseDuration) {
        public Lock {
            positive("lock.lease-duration", leaseDuration);
        }
    }

    /**
     * Work that one node does for all when they start.
     *
     * @param leaseDuration How long work that one node does for all at start-up may take before another node may begin it.
     * @param waitTimeout How long StartupCoordinator.once waits for another node that runs the action.
     */
    public record Startup(
            @DefaultValue("5m") Duration leaseDuration,
            @DefaultValue("10m") Duration waitTimeout) {
        public Startup {
            positive("startup.lease-duration", leaseDuration);
            notNegative("startup.wait-timeout", waitTimeout);
        }
    }

    /**
     * How rate limits are kept.
     *
     * @param mode Hybrid counts users and addresses on each node and global limits in the database; strict counts
     *     everything in the database.
     * @param onDatabaseLoss What a limit kept in the database does while that is out of reach: local counts on the node,
     *     deny, allow.
     * @param maxLocalBuckets How many buckets of users, addresses and expressions a node keeps; the least used ones are
     *     forgotten.
     * @param trustedProxies Addresses and networks of proxies whose X-Forwarded-For is believed when calls are limited by
     *     address.
     */
    public record RateLimit(
            @DefaultValue("hybrid") Mode mode,
            @DefaultValue("local") DatabaseLoss onDatabaseLoss,
            @DefaultValue("100000") int maxLocalBuckets,
            @DefaultValue List<String> trustedProxies) {
        public RateLimit {
            atLeast(1, "rate-limit.max-local-buckets", maxLocalBuckets);
            trustedProxies = List.copyOf(trustedProxies);
            trustedProxies.forEach(RateLimit::range);
        }

        /** The trusted proxies, to be compared with. */
        public List<AddressRange> trustedRanges() {
            return trustedProxies.stream().map(RateLimit::range).toList();
        }

        private static AddressRange range(String text) {
            try {
                return AddressRange.of(text.trim());
            } catch (IllegalArgumentException e) {
                throw new ClusterStartupException(
                        named("rate-limit.trusted-proxies", text) + " " + e.getMessage(),
                        "List the addresses or networks of the proxies in front of the application.",
                        e);
            }
        }

        /** Where calls are counted. */
        public enum Mode {
            /** Users and addresses on each node, global limits in the database. */
            HYBRID,
            /** Everything in the database. */
            STRICT
        }

        /** What to do without the database. */
        public enum DatabaseLoss {
            /** Count on the node. */
            LOCAL,
            /** Refuse every call. */
            DENY,
            /** Admit every call. */
            ALLOW
        }
    }

    /**
     * How workers learn of new work before they poll.
     *
     * @param type What tells workers of new work; a ClusterCoordinator bean takes precedence.
     */
    public record Wakeup(@DefaultValue("postgres") Type type) {

        /** What carries the news. */
        public enum Type {
            /** LISTEN and NOTIFY. */
            POSTGRES,
            /** Redis publish and subscribe. */
            REDIS,
            /** A JMS topic. */
            JMS,
            /** Nothing: workers poll. */
            NONE
        }
    }

    /**
     * Submission of work over HTTP.
     *
     * @param enabled Whether jobs can be submitted over HTTP.
     * @param path Path under which jobs are submitted.
     * @param jobs Names of the jobs that may be submitted, or patterns as in worker.routing: * within a segment, ** for any
     *     number of segments.
     * @param maxRequestSize How large the body of a request may be.
     * @param healthAliases Whether /_api/health and /_api/ready answer, too.
     * @param maxPriority The highest priority that a request may ask for. The priority that a handler declares is not
     *     limited.
     * @param allowReplace Whether a request may replace the payload of the unfinished job that has its key.
     * @param visibleJobs Which jobs a client may read and cancel: own, those that it has submitted; all, every job whose
     *     name is in forge.cluster.web.jobs.
     */
    public record Web(
            @DefaultValue("false") boolean enabled,
            @DefaultValue("/forge") String path,
            @DefaultValue List<String> jobs,
            @DefaultValue("1MB") DataSize maxRequestSize,
            @DefaultValue("true") boolean healthAliases,
            @DefaultValue("normal") JobPriority maxPriority,
            @DefaultValue("false") boolean allowReplace,
            @DefaultValue("own") VisibleJobs visibleJobs) {

        /** Which jobs a client may read and cancel. */
        public enum VisibleJobs {
            /** Those that it has submitted over HTTP. */
            OWN,
            /** Every job whose name may be submitted, whoever enqueued it. */
            ALL
        }

        private static final DataSize LARGEST_REQUEST = DataSize.ofMegabytes(64);

        public Web {
            require(path.startsWith("/"), "web.path", path, "must begin with a slash");
            require(
                    path.matches("/|(/[A-Za-z0-9._~-]+)+"),
                    "web.path",
                    path,
                    "must be a plain path such as /forge, without a slash at its end");
            jobs = List.copyOf(jobs);
            require(jobs.stream().noneMatch(String::isBlank), "web.jobs", jobs, "must not have a blank entry");
            require(
                    !enabled || !jobs.isEmpty(),
                    "web.jobs",
                    "",
                    "must name the jobs that may be submitted: %s opens nothing else"
                            .formatted(named("web.enabled", enabled)));
            jobs.stream().filter(Web::isPattern).forEach(entry -> WorkerProperties.requirePattern("web.jobs", entry));
            require(
                    maxRequestSize.toBytes() > 0 && maxRequestSize.compareTo(LARGEST_REQUEST) <= 0,
                    "web.max-request-size",
                    maxRequestSize,
                    "must lie between one byte and 64MB: a request is held in memory");
        }

        private static boolean isPattern(String entry) {
            return entry.contains("*");
        }

        /** Whether jobs of a name may be submitted. */
        public Predicate<String> allowed() {
            Predicate<String> allowed = name -> false;
            for (String entry : jobs) {
                // Names may hold what a pattern may not, a single colon for one.
                allowed = allowed.or(isPattern(entry) ? new NamePattern(entry)::matches : entry::equals);
            }
            return allowed;
        }
    }

    /**
     * Logins with Spring Security's OAuth2 client.
     *
     * @param enabled Whether a login that began on one node may be completed on any other. Switch it off where the security
     *     chain sets an AuthorizationRequestRepository of its own that is no bean.
     * @param ttl How long a login may take from the redirect to the identity provider to its callback.
     * @param maxPending How many logins may be pending in the whole cluster. While there are as many, a new one is refused
     *     with 503.
     * @param maxPerMinute How many logins one client address may begin per minute on each node; more are refused with 429.
     *     0 for no limit. Over the ttl, on all nodes, they should be far fewer than max-pending.
     */
    public record OAuth2(
            @DefaultValue("true") boolean enabled,
            @DefaultValue("10m") Duration ttl,
            @DefaultValue("10000") int maxPending,
            @DefaultValue("30") int maxPerMinute) {

        private static final Duration LONGEST_LOGIN = Duration.ofDays(1);
        private static final int MOST_PENDING = 100_000;

        public OAuth2 {
            // A cookie's age is counted in seconds.
            require(ttl.compareTo(Duration.ofSeconds(1)) >= 0, "oauth2.ttl", ttl, "must not be shorter than 1s");
            require(ttl.compareTo(LONGEST_LOGIN) <= 0, "oauth2.ttl", ttl, "must not be longer than a day");
            require(
                    maxPending >= 1 && maxPending <= MOST_PENDING,
                    "oauth2.max-pending",
                    maxPending,
                    "must lie between 1 and %d: they are counted when a login begins".formatted(MOST_PENDING));
            atLeast(0, "oauth2.max-per-minute", maxPerMinute);
        }

        /** What one address can begin on one node before the first of it expires: a burst, and what comes back meanwhile. */
        long pendingOfOneAddress() {
            return maxPerMinute + maxPerMinute * ttl.toSeconds() / 60;
        }
    }

    /**
     * How workflows affect readiness, and how large a run may become.
     *
     * @param readinessInterval Pause between two looks for runs that this code cannot continue.
     * @param strandedScope Node: a run whose code this node lacks makes it unready; cluster: only one whose code no live
     *     node has.
     * @param maxPendingSignals How many signals of one run may wait to be consumed; further ones are rejected.
     * @param maxPendingSignalsSize How large the payloads of these signals may be altogether.
     * @param maxHistorySize How large the input and the recorded results of one run may be altogether; a run that exceeds
     *     it fails.
     */
    public record Workflow(
            @DefaultValue("2s") Duration readinessInterval,
            @DefaultValue("node") StrandedScope strandedScope,
            @DefaultValue("1000") int maxPendingSignals,
            @DefaultValue("16MB") DataSize maxPendingSignalsSize,
            @DefaultValue("32MB") DataSize maxHistorySize) {

        private static final int MOST_SIGNALS = 100_000;
        private static final DataSize LARGEST = DataSize.ofMegabytes(512);

        public Workflow {
            positive("workflow.readiness-interval", readinessInterval);
            atLeast(1, "workflow.max-pending-signals", maxPendingSignals);
            require(
                    maxPendingSignals <= MOST_SIGNALS,
                    "workflow.max-pending-signals",
                    maxPendingSignals,
                    "must not exceed %d".formatted(MOST_SIGNALS));
            size("workflow.max-pending-signals-size", maxPendingSignalsSize);
            size("workflow.max-history-size", maxHistorySize);
        }

        private static void size(String key, DataSize value) {
            require(value.toBytes() > 0, key, value, "must be larger than zero");
            require(value.compareTo(LARGEST) <= 0, key, value, "must not exceed 512MB");
        }

        /** Who must have the code of a run. */
        public enum StrandedScope {
            /** This node. */
            NODE,
            /** Any live node. */
            CLUSTER
        }
    }

    /**
     * What the health component reports.
     *
     * @param readinessIncludesDatabase Whether a node without its database is not ready.
     */
    public record Health(@DefaultValue("true") boolean readinessIncludesDatabase) {}
}
