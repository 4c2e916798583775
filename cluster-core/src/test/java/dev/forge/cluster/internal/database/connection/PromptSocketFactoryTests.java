// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database.connection;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.awaitility.Awaitility.await;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class PromptSocketFactoryTests {

    private ServerSocket listening;
    private Socket socket;
    private Socket server;

    @BeforeEach
    void connect() throws IOException {
        listening = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
        socket = new PromptSocketFactory().createSocket(InetAddress.getLoopbackAddress(), listening.getLocalPort());
        server = listening.accept();
    }

    @AfterEach
    void close() throws IOException {
        socket.close();
        server.close();
        listening.close();
    }

    @Test
    void short_read_without_data_times_out_at_once() throws IOException {
        socket.setSoTimeout(1);
        assertThatExceptionOfType(SocketTimeoutException.class)
                .isThrownBy(() -> socket.getInputStream().read())
                // A timeout of the system, which comes after a wait, has another message.
                .withMessage("nothing has arrived");
        assertThatExceptionOfType(SocketTimeoutException.class)
                .isThrownBy(() -> socket.getInputStream().read(new byte[8], 0, 8))
                .withMessage("nothing has arrived");
    }

    @Test
    void short_read_returns_arrived_bytes() throws IOException {
        server.getOutputStream().write(new byte[] {7, 8});
        await().until(() -> socket.getInputStream().available() == 2);
        socket.setSoTimeout(1);
        assertThat(socket.getInputStream().read()).isEqualTo(7);
        var bytes = new byte[8];
        assertThat(socket.getInputStream().read(bytes, 0, 8)).isOne();
        assertThat(bytes[0]).isEqualTo((byte) 8);
    }

    @Test
    void longer_timeout_waits_for_data() throws IOException {
        socket.setSoTimeout(1);
        socket.setSoTimeout(60_000);
        CompletableFuture<Integer> read = CompletableFuture.supplyAsync(() -> {
            try {
                return socket.getInputStream().read();
            } catch (IOException e) {
                throw new CompletionException(e);
            }
        });
        server.getOutputStream().write(9);
        assertThat(read.join()).isEqualTo(9);
    }

    @Test
    void factory_of_the_application_is_kept() {
        var properties = new Properties();
        PromptSocketFactory.addTo(properties);
        assertThat(properties).containsEntry("socketFactory", PromptSocketFactory.class.getName());
        properties.setProperty("socketFactory", "com.example.TunnelFactory");
        PromptSocketFactory.addTo(properties);
        assertThat(properties).containsEntry("socketFactory", "com.example.TunnelFactory");
    }
}
