// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.postgres;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.awaitility.Awaitility.await;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class TcpProxyTests {

    private ServerSocket echo;
    private TcpProxy proxy;

    @BeforeEach
    void start() throws IOException {
        echo = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        var server = new Thread(() -> {
            try {
                while (true) {
                    Socket client = echo.accept();
                    var pump = new Thread(() -> {
                        try (client) {
                            client.getInputStream().transferTo(client.getOutputStream());
                        } catch (IOException e) {
                            // The test has ended the connection.
                        }
                    });
                    pump.setDaemon(true);
                    pump.start();
                }
            } catch (IOException e) {
                // Closed at the end of the test.
            }
        });
        server.setDaemon(true);
        server.start();
        proxy = TcpProxy.to("localhost", echo.getLocalPort());
    }

    @AfterEach
    void stop() throws IOException {
        proxy.close();
        echo.close();
    }

    private Socket connect() throws IOException {
        var socket = new Socket(InetAddress.getLoopbackAddress(), proxy.port());
        socket.setSoTimeout(60_000);
        assertThat(echo(socket, 'a')).isEqualTo('a');
        return socket;
    }

    private static int echo(Socket socket, char c) throws IOException {
        socket.getOutputStream().write(c);
        return socket.getInputStream().read();
    }

    @Test
    void cut_connection_is_silent_and_delivers_data_after_healing() throws Exception {
        try (Socket socket = connect()) {
            proxy.cut();
            socket.setSoTimeout(200);
            assertThatExceptionOfType(SocketTimeoutException.class).isThrownBy(() -> echo(socket, 'b'));
            socket.setSoTimeout(60_000);
            proxy.heal();
            assertThat(socket.getInputStream().read()).isEqualTo('b');
        }
    }

    @Test
    void connection_opened_during_a_cut_works_after_healing() throws Exception {
        proxy.cut();
        try (var socket = new Socket(InetAddress.getLoopbackAddress(), proxy.port())) {
            socket.setSoTimeout(200);
            assertThatExceptionOfType(SocketTimeoutException.class).isThrownBy(() -> echo(socket, 'a'));
            socket.setSoTimeout(60_000);
            proxy.heal();
            assertThat(socket.getInputStream().read()).isEqualTo('a');
        }
    }

    @Test
    void close_during_a_cut_is_noticed_after_healing() throws Exception {
        Socket socket = connect();
        proxy.cut();
        socket.close();
        await().atMost(1, TimeUnit.MINUTES).during(Duration.ofMillis(300)).until(() -> proxy.connections() == 1);
        proxy.heal();
        await().atMost(1, TimeUnit.MINUTES).until(() -> proxy.connections() == 0);
    }

    @Test
    void a_reset_reaches_the_client_and_new_connections_work() throws Exception {
        try (Socket socket = connect()) {
            proxy.reset();
            assertThatExceptionOfType(SocketException.class)
                    .isThrownBy(() -> socket.getInputStream().read());
        }
        await().atMost(1, TimeUnit.MINUTES).until(() -> proxy.connections() == 0);
        connect().close();
    }

    @Test
    void a_delay_holds_data_back_in_both_directions() throws Exception {
        try (Socket socket = connect()) {
            proxy.delay(Duration.ofMillis(100));
            long before = System.nanoTime();
            assertThat(echo(socket, 'b')).isEqualTo('b');
            assertThat(Duration.ofNanos(System.nanoTime() - before)).isGreaterThanOrEqualTo(Duration.ofMillis(200));
        }
    }
}
