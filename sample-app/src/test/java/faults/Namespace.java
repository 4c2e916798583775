// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package faults;

import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * A network namespace that simulates a separate host, with one link to this host. A cut is silent: each end sends its packets
 * to a hardware address that does not exist.
 */
final class Namespace implements AutoCloseable {

    private static final String NAME = "forge-" + ProcessHandle.current().pid();
    private static final String HERE = "fg" + ProcessHandle.current().pid();
    private static final String NOBODY = "02:00:00:00:00:99";
    /** A network of this process alone: the namespace of a killed one may still exist. */
    private static final String HERE_ADDRESS = address(1);

    private static final String THERE_ADDRESS = address(2);

    private static String address(int host) {
        long block = ProcessHandle.current().pid() % (1 << 20);
        return "10.%d.%d.%d".formatted(64 + (block >> 14), (block >> 6) & 255, ((block & 63) << 2) + host);
    }

    private Namespace() {}

    /** Creates a namespace; returns empty if this user or system cannot create one. */
    static Optional<Namespace> create() {
        if (!OwnPostgres.isRoot()) {
            return Optional.empty();
        }
        var namespace = new Namespace();
        try {
            ip("netns", "add", NAME);
            ip("link", "add", HERE, "type", "veth", "peer", "name", "there", "netns", NAME);
            ip("addr", "add", HERE_ADDRESS + "/30", "dev", HERE);
            ip("link", "set", HERE, "up");
            inside("addr", "add", THERE_ADDRESS + "/30", "dev", "there");
            inside("link", "set", "there", "up");
            inside("link", "set", "lo", "up");
            return Optional.of(namespace);
        } catch (IllegalStateException | UncheckedIOException e) {
            namespace.close();
            return Optional.empty();
        }
    }

    /** Returns the address of this host, as seen from inside the namespace. */
    String address() {
        return HERE_ADDRESS;
    }

    String[] prefix() {
        return new String[] {"ip", "netns", "exec", NAME};
    }

    void cut() {
        inside("neigh", "replace", HERE_ADDRESS, "lladdr", NOBODY, "dev", "there", "nud", "permanent");
        ip("neigh", "replace", THERE_ADDRESS, "lladdr", NOBODY, "dev", HERE, "nud", "permanent");
    }

    void heal() {
        inside("neigh", "del", HERE_ADDRESS, "dev", "there");
        ip("neigh", "del", THERE_ADDRESS, "dev", HERE);
    }

    private static void inside(String... arguments) {
        var command = new ArrayList<>(List.of("-n", NAME));
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
            ip("netns", "del", NAME);
        } catch (IllegalStateException | UncheckedIOException e) {
            // The namespace did not exist.
        }
    }
}
