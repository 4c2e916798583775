// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.process;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.test.postgres.PostgresServer;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.Test;

class AppProcessTests {

    /** Writes temporary files, as a web server does, and deletes them only if it may end by itself. */
    static final class Application {

        private Application() {}

        public static void main(String[] args) throws IOException, InterruptedException {
            Path file = Files.createTempDirectory("work").resolve("file");
            Files.writeString(file, "text");
            file.toFile().deleteOnExit();
            System.out.println("arguments " + String.join(" ", args));
            System.out.println("connects as " + System.getenv("SPRING_DATASOURCE_USERNAME") + " with "
                    + System.getenv("SPRING_DATASOURCE_PASSWORD"));
            System.out.println("wrote <" + file + ">");
            new CountDownLatch(1).await();
        }
    }

    @Test
    void killed_process_leaves_no_files() {
        Path file;
        try (AppProcess process = AppProcess.of(Application.class).start()) {
            process.awaitLog(">", Duration.ofMinutes(1));
            String log = process.log();
            file = Path.of(log.substring(log.indexOf('<') + 1, log.indexOf('>')));
            assertThat(file).hasContent("text");
            process.kill();
            assertThat(process.log()).as("output of a killed process").contains("wrote");
        }
        Path directory = file.getParent().getParent();
        assertThat(directory).as("temporary directory of the process").doesNotExist();
    }

    private static List<String> arguments(AppProcess process) {
        String log = process.awaitLog(">", Duration.ofMinutes(1)).log();
        return List.of(log.substring(log.indexOf("arguments "), log.indexOf("connects"))
                .split("\\s+"));
    }

    @Test
    void credentials_are_not_on_the_command_line() {
        try (TestDatabase database = PostgresServer.shared().createEmptyDatabase("process");
                AppProcess process =
                        AppProcess.of(Application.class).database(database).start()) {
            assertThat(arguments(process)).noneMatch(argument -> argument.contains("spring.datasource"));
            assertThat(process.log())
                    .contains("connects as %s with %s".formatted(database.username(), database.password()));
        }
    }

    @Test
    void properties_of_the_test_have_precedence() {
        try (TestDatabase database = PostgresServer.shared().createEmptyDatabase("process");
                AppProcess process = AppProcess.of(Application.class)
                        .database(database)
                        .property("spring.datasource.username", "other")
                        .property("server.address", "0.0.0.0")
                        .start()) {
            assertThat(arguments(process)).contains("--spring.datasource.username=other", "--server.address=0.0.0.0");
        }
    }

    @Test
    void only_this_machine_reaches_the_application() {
        try (AppProcess process = AppProcess.of(Application.class).start()) {
            assertThat(arguments(process)).contains("--server.address=127.0.0.1");
        }
    }
}
