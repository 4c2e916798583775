// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package sample;

import java.io.IOException;
import java.net.ServerSocket;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Map;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;

/** A small order service. All instances on one database form one cluster. */
@SpringBootApplication
public class SampleApplication {

    private static final int DEFAULT_PORT = 8080;

    public static void main(String[] args) {
        var application = new SpringApplication(SampleApplication.class);
        application.setDefaultProperties(Map.of("server.port", port()));
        application.run(args);
    }

    /**
     * Returns the default port for the first instance on a machine, and 0 (any free port) for others. The process holds the
     * lock until it ends, so two instances that start at the same moment do not both get the default port.
     */
    private static int port() {
        try {
            Path file = Path.of(System.getProperty("java.io.tmpdir"), "forge-sample-%d.lock".formatted(DEFAULT_PORT));
            FileChannel channel = FileChannel.open(file, StandardOpenOption.CREATE, StandardOpenOption.WRITE);
            if (channel.tryLock() == null) {
                return 0;
            }
            try (var probe = new ServerSocket(DEFAULT_PORT)) {
                return probe.getLocalPort();
            }
        } catch (IOException taken) {
            return 0;
        }
    }
}
