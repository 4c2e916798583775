// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database.connection;

import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketAddress;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.util.Properties;
import javax.net.SocketFactory;
import org.jspecify.annotations.Nullable;
import org.postgresql.Driver;
import org.postgresql.PGProperty;
import org.springframework.util.ClassUtils;

/**
 * Creates sockets that let the driver return a notification as soon as it has arrived. The driver reads on, with a timeout of one
 * millisecond, to see whether there are more, which doubles the time until another node hears of a job. These sockets answer such a
 * read at once if nothing has arrived.
 */
public final class PromptSocketFactory extends SocketFactory {

    /** The timeout in milliseconds with which the driver asks whether there is more to read. */
    private static final int ASKING = 1;

    /**
     * Makes the driver create such sockets, unless these properties or the URL name another factory. Does nothing if the driver was
     * loaded by a class loader that cannot load this class.
     */
    public static void addTo(Properties properties) {
        String name = PromptSocketFactory.class.getName();
        if (ClassUtils.isPresent(name, Driver.class.getClassLoader())) {
            properties.putIfAbsent(PGProperty.SOCKET_FACTORY.getName(), name);
        }
    }

    @Override
    public Socket createSocket() {
        return new PromptSocket();
    }

    @Override
    public Socket createSocket(String host, int port) throws IOException {
        return connected(new InetSocketAddress(host, port), null);
    }

    @Override
    public Socket createSocket(String host, int port, InetAddress localHost, int localPort) throws IOException {
        return connected(new InetSocketAddress(host, port), new InetSocketAddress(localHost, localPort));
    }

    @Override
    public Socket createSocket(InetAddress host, int port) throws IOException {
        return connected(new InetSocketAddress(host, port), null);
    }

    @Override
    public Socket createSocket(InetAddress host, int port, InetAddress localHost, int localPort) throws IOException {
        return connected(new InetSocketAddress(host, port), new InetSocketAddress(localHost, localPort));
    }

    private static Socket connected(SocketAddress remote, @Nullable SocketAddress local) throws IOException {
        var socket = new PromptSocket();
        try {
            socket.bind(local);
            socket.connect(remote);
            return socket;
        } catch (IOException e) {
            socket.close();
            throw e;
        }
    }

    private static final class PromptSocket extends Socket {

        private volatile boolean asking;

        @Override
        public synchronized void setSoTimeout(int timeout) throws SocketException {
            super.setSoTimeout(timeout);
            asking = timeout == ASKING;
        }

        @Override
        public InputStream getInputStream() throws IOException {
            return new FilterInputStream(super.getInputStream()) {

                @Override
                public int read() throws IOException {
                    requireAnswer();
                    return in.read();
                }

                @Override
                public int read(byte[] bytes, int offset, int length) throws IOException {
                    requireAnswer();
                    return in.read(bytes, offset, length);
                }

                private void requireAnswer() throws IOException {
                    if (asking && in.available() == 0) {
                        throw new SocketTimeoutException("nothing has arrived");
                    }
                }
            };
        }
    }
}
