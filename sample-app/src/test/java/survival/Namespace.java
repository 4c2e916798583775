// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package survival;

import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A network namespace that simulates a separate host, with one link to this host. A cut is silent: each end sends its packets
 * to a hardware address that does not exist.
 */
final class Namespace implements AutoCloseable {

    private static final String NOBODY = "02:00:00:00:00:99";
    private static final AtomicInteger CREATED = new AtomicInteger();

    private final String name;
    private final String here;
    private final String hereAddress;
    private final String thereAddress;

    /** Has names and a network of its own: the system deletes a namespace late, and that of a killed process not at all. */
    private Namespace() {
        long pid = ProcessHandle.current().pid();
        int number = CREATED.incrementAndGet();
        this.name = "forge-%d-%d".formatted(pid, number);
        this.here = "fg%d-%d".formatted(pid, number);
        long block = (pid * 8 + number) % (1 << 20);
        String network = "10.%d.%d.".formatted(64 + (block >> 14), (block >> 6) & 255);
        long first = (block & 63) << 2;
        this.hereAddress = network + (first + 1);
        this.thereAddress = network + (first + 2);
    }

    /** Creates a namespace; returns empty if this user or system cannot create one. */
    static Optional<Namespace> create() {
        if (!OwnPostgres.isRoot()) {
            return Optional.empty();
        }
        var namespace = new Namespace();
        try {
            ip("netns", "add", namespace.name);
            ip("link", "add", namespace.here, "type", "veth", "peer", "name", "there", "netns", namespace.name);
            ip("addr", "add", namespace.hereAddress + "/30", "dev", namespace.here);
            ip("link", "set", namespace.here, "up");
            namespace.inside("addr", "add", namespace.thereAddress + "/30", "dev", "there");
            namespace.inside("link", "set", "there", "up");
            namespace.inside("link", "set", "lo", "up");
            return Optional.of(namespace);
        } catch (IllegalStateException | UncheckedIOException e) {
            namespace.close();
            return Optional.empty();
        }
    }

    /** Returns the address of this host, as seen from inside the namespace. */
    String address() {
        return hereAddress;
    }

    String[] prefix() {
        return new String[] {"ip", "netns", "exec", name};
    }

    void cut() {
        inside("neigh", "replace", hereAddress, "lladdr", NOBODY, "dev", "there", "nud", "permanent");
        ip("neigh", "replace", thereAddress, "lladdr", NOBODY, "dev", here, "nud", "permanent");
    }

    void heal() {
        inside("neigh", "del", hereAddress, "dev", "there");
        ip("neigh", "del", thereAddress, "dev", here);
    }

    private void inside(String... arguments) {
        var command = new ArrayList<>(List.of("-n", name));
        command.addAll(List.of(arguments));
        ip(command.toArray(String[]::new));
    }

    private static void ip(String... arguments) {
        var command = new ArrayList<>(List.of("ip"));
        command.addAll(List.of(arguments));
        OwnPostgres.command(command);
    }

    @Override
    public void close() {
        try {
            ip("netns", "del", name);
        } catch (IllegalStateException | UncheckedIOException e) {
            // The namespace did not exist.
        }
    }
}
