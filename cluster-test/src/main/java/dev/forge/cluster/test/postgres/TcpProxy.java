// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.postgres;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * A network between a client and a server that a test can cut, delay and reset. It listens on a free port of this host, to
 * which the client connects.
 */
public final class TcpProxy implements AutoCloseable {

    private final ServerSocket listener;
    private final List<Link> links = new CopyOnWriteArrayList<>();
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private boolean cut;
    private boolean closed;
    private volatile InetSocketAddress target;
    private volatile boolean refusing;
    private volatile Duration delay = Duration.ZERO;

    private TcpProxy(InetSocketAddress target) throws IOException {
        this.target = target;
        this.listener = new ServerSocket(0, 100, InetAddress.getLoopbackAddress());
        daemon("accept", this::acceptLinks);
    }

    /** Starts a proxy in front of that server. */
    public static TcpProxy to(String host, int port) {
        try {
            return new TcpProxy(new InetSocketAddress(host, port));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Returns the port on which the proxy listens. */
    public int port() {
        return listener.getLocalPort();
    }

    /** Returns the number of open connections. */
    public int connections() {
        return links.size();
    }

    /**
     * Cuts the network silently: no byte passes in either direction, and neither end is told. Bytes sent meanwhile arrive
     * after {@link #heal()}, as with TCP. New connections are accepted but not forwarded until then.
     */
    public void cut() {
        set(() -> cut = true);
    }

    /** Ends a {@link #cut()}. */
    public void heal() {
        set(() -> cut = false);
    }

    /** Resets every open connection at both ends (RST). New connections work. */
    public void reset() {
        links.forEach(Link::reset);
    }

    /** Rejects new connections, as a host without a server does, or accepts them again. */
    public void refuse(boolean whether) {
        refusing = whether;
    }

    /** Connects new connections to another server. */
    void target(String host, int port) {
        target = new InetSocketAddress(host, port);
    }

    /** Delays all data by that duration in each direction; zero ends the delay. */
    public void delay(Duration delay) {
        this.delay = delay;
    }

    /** Closes all connections and stops listening. */
    @Override
    public void close() {
        set(() -> closed = true);
        closeQuietly(listener);
        links.forEach(Link::reset);
    }

    private void set(Runnable change) {
        lock.lock();
        try {
            change.run();
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    private void awaitHealed() throws InterruptedException {
        lock.lock();
        try {
            while (cut && !closed) {
                changed.await();
            }
        } finally {
            lock.unlock();
        }
    }

    private void acceptLinks() {
        try {
            while (true) {
                Socket client = listener.accept();
                daemon("connect", () -> connect(client));
            }
        } catch (IOException e) {
            // The proxy was closed.
        }
    }

    private void connect(Socket client) {
        var server = new Socket();
        var link = new Link(client, server);
        if (refusing) {
            link.reset();
            return;
        }
        links.add(link);
        try {
            awaitHealed();
            server.connect(target, 5_000);
            daemon("up", () -> link.pump(client, server));
            link.pump(server, client);
        } catch (IOException | InterruptedException e) {
            link.reset();
        }
    }

    private static void daemon(String name, Runnable work) {
        var thread = new Thread(work, "tcp-proxy-" + name);
        thread.setDaemon(true);
        thread.start();
    }

    private static void closeQuietly(AutoCloseable socket) {
        try {
            socket.close();
        } catch (Exception e) {
            // It is closed either way.
        }
    }

    private final class Link {

        private final Socket client;
        private final Socket server;

        Link(Socket client, Socket server) {
            this.client = client;
            this.server = server;
        }

        void pump(Socket from, Socket to) {
            var buffer = new byte[16 * 1024];
            try {
                InputStream in = from.getInputStream();
                OutputStream out = to.getOutputStream();
                from.setTcpNoDelay(true);
                for (int read = in.read(buffer); read >= 0; read = in.read(buffer)) {
                    Duration held = delay;
                    if (!held.isZero()) {
                        TimeUnit.NANOSECONDS.sleep(held.toNanos());
                    }
                    awaitHealed();
                    out.write(buffer, 0, read);
                    out.flush();
                }
            } catch (IOException | InterruptedException e) {
                // One end was closed; the other one is closed as soon as the network allows it.
            }
            try {
                awaitHealed();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            } finally {
                close();
            }
        }

        void reset() {
            for (Socket socket : List.of(client, server)) {
                try {
                    socket.setSoLinger(true, 0);
                } catch (IOException e) {
                    // It was closed before.
                }
            }
            close();
        }

        private void close() {
            closeQuietly(client);
            closeQuietly(server);
            links.remove(this);
        }
    }
}
