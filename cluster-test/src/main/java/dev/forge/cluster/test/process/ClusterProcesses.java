// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.process;

import dev.forge.cluster.test.postgres.Patience;
import dev.forge.cluster.test.postgres.TcpProxy;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.io.UncheckedIOException;
import java.net.URI;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.jspecify.annotations.Nullable;

/**
 * The processes of one test method of a {@link ClusterProcessTest}, numbered from 0 in the order of their start. A process
 * keeps its number when it has ended. The node of process 0 has the name {@code process-0}.
 *
 * <p>All methods may be called by several threads. Methods with a number throw an {@link IllegalArgumentException} if no
 * process has it.
 */
public final class ClusterProcesses {

    private static final Duration START = Duration.ofMinutes(2);
    private static final Duration STOP = Duration.ofMinutes(1);
    private static final Duration PATIENCE = Duration.ofMinutes(1);
    private static final int POSTGRES_PORT = 5432;
    private static final int LOG_LINES = 50;

    private record Member(AppProcess process, @Nullable TcpProxy network) {}

    private final ClusterProcessTest settings;
    private final TestDatabase database;
    private final List<Member> members = new CopyOnWriteArrayList<>();
    private boolean ended;

    ClusterProcesses(ClusterProcessTest settings, TestDatabase database) {
        this.settings = settings;
        this.database = database;
    }

    /** Starts as many processes as the annotation requests, and waits until all are ready. */
    void startAll() {
        if (settings.processes() < 0) {
            throw new IllegalArgumentException(
                    "@ClusterProcessTest: processes (%d) must not be negative".formatted(settings.processes()));
        }
        for (int i = 0; i < settings.processes(); i++) {
            launch();
        }
        members.forEach(member -> member.process().awaitReady(START));
    }

    /** Returns the database of this test. Its connections do not pass the proxies. */
    public TestDatabase database() {
        return database;
    }

    /** Returns how many processes this test has started, including those that have ended. */
    public int size() {
        return members.size();
    }

    /** Returns a process. */
    public AppProcess process(int index) {
        return member(index).process();
    }

    /**
     * Returns the network between a process and the database.
     *
     * @throws IllegalStateException if the test has {@code proxied = false}
     */
    public TcpProxy network(int index) {
        TcpProxy network = member(index).network();
        if (network == null) {
            throw new IllegalStateException(
                    "Process %d has no proxy to the database: @ClusterProcessTest has proxied = false"
                            .formatted(index));
        }
        return network;
    }

    /**
     * Starts a further process, and waits until it is ready.
     *
     * @param properties application properties of this process in the form {@code key=value}, in addition to those of the
     *     annotation
     * @return the number of the process
     */
    public int start(String... properties) {
        int index = launch(properties);
        process(index).awaitReady(START);
        return index;
    }

    /** Kills a process (SIGKILL), and waits for its end. */
    public void kill(int index) {
        process(index).kill();
    }

    /** Stops a process in an orderly way (SIGTERM), and waits for its end; returns its exit code. */
    public int stop(int index) {
        AppProcess process = process(index);
        process.terminate();
        return process.awaitExit(STOP);
    }

    /** Suspends a process (SIGSTOP). It keeps its memory and connections, as in a long pause of its machine. */
    public void freeze(int index) {
        process(index).freeze();
    }

    /** Resumes a process after {@link #freeze} (SIGCONT). */
    public void resume(int index) {
        process(index).thaw();
    }

    /**
     * Cuts the network between a process and the database silently: no byte passes, and neither end is told. Bytes sent
     * meanwhile arrive after {@link #reconnect}.
     */
    public void cutFromDatabase(int index) {
        network(index).cut();
    }

    /** Ends {@link #cutFromDatabase}. */
    public void reconnect(int index) {
        network(index).heal();
    }

    /** Delays all data between a process and the database by that duration in each direction; zero ends the delay. */
    public void slowDown(int index, Duration delay) {
        network(index).delay(delay);
    }

    /**
     * Repeats an assertion for up to a minute until it passes.
     *
     * @throws AssertionError if the assertion still fails then; its cause is the last failure
     */
    public void eventually(Runnable assertion) {
        eventually(PATIENCE, assertion);
    }

    /**
     * Repeats an assertion until it passes. An assertion that throws an exception, such as one of a database or HTTP client,
     * is repeated too.
     *
     * @throws AssertionError if the assertion still fails after {@code patience}; its cause is the last failure
     */
    public void eventually(Duration patience, Runnable assertion) {
        Patience.eventually(patience, assertion);
    }

    private Member member(int index) {
        int size = members.size();
        if (index < 0 || index >= size) {
            throw new IllegalArgumentException(
                    "Process %d does not exist: this test has started %d processes, from 0".formatted(index, size));
        }
        return members.get(index);
    }

    /** Starts a process without waiting for it; returns its number. */
    private synchronized int launch(String... properties) {
        if (ended) {
            throw new IllegalStateException("The test of these processes has ended");
        }
        int index = members.size();
        AppProcess.Builder builder = AppProcess.of(settings.application())
                .database(database)
                .property("forge.cluster.node.name", "process-" + index);
        TcpProxy network = null;
        if (settings.proxied()) {
            network = proxy();
            builder.environment("SPRING_DATASOURCE_URL", urlThrough(network));
        }
        try {
            set(builder, settings.properties());
            set(builder, properties);
            members.add(new Member(builder.start(), network));
        } catch (RuntimeException e) {
            if (network != null) {
                network.close();
            }
            throw e;
        }
        return index;
    }

    private static void set(AppProcess.Builder builder, String... properties) {
        for (String property : properties) {
            int separator = property.indexOf('=');
            if (separator <= 0) {
                throw new IllegalArgumentException(
                        "Property '%s' of a process must have the form key=value".formatted(property));
            }
            builder.property(property.substring(0, separator), property.substring(separator + 1));
        }
    }

    private TcpProxy proxy() {
        URI server = URI.create(database.url().substring("jdbc:".length()));
        return TcpProxy.to(server.getHost(), server.getPort() < 0 ? POSTGRES_PORT : server.getPort());
    }

    private String urlThrough(TcpProxy network) {
        return database.url().replaceFirst("//[^/]+/", "//localhost:" + network.port() + "/");
    }

    /** Returns the last lines of each process's output, as an exception without a stack trace. */
    ProcessOutput output() {
        var text = new StringBuilder();
        for (int i = 0; i < members.size(); i++) {
            AppProcess process = members.get(i).process();
            List<String> lines = lines(process);
            text.append("%n--- process %d (pid %d, %s), last lines of its output:%n"
                    .formatted(i, process.pid(), process.isAlive() ? "running" : "ended"));
            lines.subList(Math.max(0, lines.size() - LOG_LINES), lines.size())
                    .forEach(line -> text.append(line).append(System.lineSeparator()));
        }
        return new ProcessOutput(text.toString());
    }

    private static List<String> lines(AppProcess process) {
        try {
            return process.log().lines().toList();
        } catch (UncheckedIOException e) {
            return List.of("Output deleted: the test has closed the process");
        }
    }

    /** Kills all processes, and then closes their proxies and drops the database. */
    synchronized void end() {
        ended = true;
        var resources = new ArrayList<AutoCloseable>();
        members.forEach(member -> resources.add(member.process()));
        // After the processes: a living process could connect while its proxy is being closed.
        members.stream().map(Member::network).filter(network -> network != null).forEach(resources::add);
        resources.add(database);
        RuntimeException failure = null;
        for (AutoCloseable resource : resources) {
            try {
                resource.close();
            } catch (Exception e) {
                if (failure == null) {
                    failure = new IllegalStateException("Could not end all processes of the test", e);
                } else {
                    failure.addSuppressed(e);
                }
            }
        }
        if (failure != null) {
            throw failure;
        }
    }

    /** Added to the failure of a test, so that every report of the failure shows it. */
    static final class ProcessOutput extends RuntimeException {

        private static final long serialVersionUID = 1L;

        ProcessOutput(String text) {
            super(text, null, false, false);
        }
    }
}
