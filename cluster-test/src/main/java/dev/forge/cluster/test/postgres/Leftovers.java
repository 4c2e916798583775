// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.postgres;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * Finds sessions, threads and processes that did not exist when this snapshot was taken. Threads and processes belong to
 * the whole JVM, so they count only if test classes run one after the other.
 */
public final class Leftovers {

    /** How long sessions, threads and processes may take to end after a close(), on a busy machine too. */
    static final Duration GRACE = Duration.ofSeconds(30);

    // The platform, the driver and the test tools start these once per JVM, during any test.
    private static final Pattern SHARED_THREADS = Pattern.compile(
            "process reaper.*|Common-Cleaner|Attach Listener|ForkJoinPool\\.commonPool-.*"
                    // Carriers of virtual threads.
                    + "|ForkJoinPool-1-.*|VirtualThread-.*|.*Poller"
                    + "|PostgreSQL-JDBC-.*|HttpClient-.*|Keep-Alive-Timer|surefire-.*|junit-.*|testcontainers-.*|ducttape-.*"
                    + "|idle-timeout-task|Cleaner-.*|Reference Handler|RMI .*|JNA Cleaner|process-.*|boundedElastic-.*");

    private final TestDatabase database;
    private final boolean wholeJvm;
    private final Set<String> sessions;
    private final Set<Thread> threads;
    private final Set<ProcessHandle> processes;

    private Leftovers(TestDatabase database, boolean wholeJvm) {
        this.database = database;
        this.wholeJvm = wholeJvm;
        this.sessions = sessionIds(database);
        this.threads = Thread.getAllStackTraces().keySet();
        this.processes = ProcessHandle.current().descendants().collect(Collectors.toSet());
    }

    public static Leftovers since(TestDatabase database, boolean wholeJvm) {
        return new Leftovers(database, wholeJvm);
    }

    /** Fails with a list of the leftovers if there are any after the grace period. */
    public void check(Duration grace) throws InterruptedException {
        long deadline = System.nanoTime() + grace.toNanos();
        List<String> left = find();
        while (!left.isEmpty() && System.nanoTime() < deadline) {
            Thread.sleep(20);
            left = find();
        }
        if (!left.isEmpty()) {
            throw new AssertionError("This test left behind:\n  " + String.join("\n  ", left));
        }
    }

    private List<String> find() {
        var left = new ArrayList<String>();
        database.sessions().stream()
                .filter(session -> !sessions.contains(id(session)))
                .forEach(left::add);
        if (wholeJvm) {
            Thread.getAllStackTraces().keySet().stream()
                    .filter(thread -> !threads.contains(thread) && thread != Thread.currentThread())
                    .filter(thread -> !SHARED_THREADS.matcher(thread.getName()).matches())
                    .forEach(thread -> left.add("thread " + thread.getName()));
            ProcessHandle.current()
                    .descendants()
                    .filter(process -> process.isAlive() && !processes.contains(process))
                    .filter(process -> !command(process).endsWith("postgres"))
                    .forEach(process -> left.add("process " + process.pid() + " " + command(process)));
        }
        return left;
    }

    private static Set<String> sessionIds(TestDatabase database) {
        return database.sessions().stream().map(Leftovers::id).collect(Collectors.toSet());
    }

    // A line begins with "session <pid> of"; the rest changes with the state of the session.
    private static String id(String session) {
        return session.substring(0, session.indexOf(" of "));
    }

    private static String command(ProcessHandle process) {
        return process.info().command().orElse("");
    }
}
