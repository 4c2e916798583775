// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.aot;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.test.process.AppProcess;
import java.io.File;
import java.io.IOException;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.stream.Stream;
import javax.tools.JavaCompiler;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.springframework.boot.SpringApplicationAotProcessor;
import org.springframework.context.aot.AbstractAotProcessor;

/** Processes an application ahead of time like {@code process-aot}, compiles it, and runs it in AOT mode. */
@ClusterPostgres
class AotTests {

    private static final Duration START = Duration.ofMinutes(5);
    private static final Duration STOP = Duration.ofMinutes(2);

    // Conditions are evaluated when the application is processed, not when it runs.
    private static final String[] BUILD_TIME = {
        "--forge.cluster.web.enabled=true",
        "--forge.cluster.web.jobs=note",
        "--management.endpoints.web.exposure.include=health,forgecluster",
        "--spring.flyway.enabled=false",
        "--spring.liquibase.enabled=false",
        "--spring.jpa.hibernate.ddl-auto=create"
    };

    private final TestDatabase database;

    AotTests(TestDatabase database) {
        this.database = database;
    }

    @Test
    void application_processed_ahead_of_time_runs_everything_that_the_cluster_offers(@TempDir Path output)
            throws IOException {
        Path classes = output.resolve("classes");
        process(output.resolve("sources"), output.resolve("resources"), classes);
        compile(output.resolve("sources"), classes);

        AppProcess.Builder builder = AppProcess.of(AotApplication.class)
                .database(database)
                .classes(classes)
                .classes(output.resolve("resources"))
                .jvmOption("-Dspring.aot.enabled=true")
                // These loggers print the AOT mode and the port of the web server.
                .property("logging.level.dev.forge.cluster.aot", "info")
                .property("logging.level.org.springframework.boot", "info");
        Stream.of(BUILD_TIME)
                .map(argument -> argument.substring(2).split("=", 2))
                .forEach(pair -> builder.property(pair[0], pair[1]));
        try (AppProcess application = builder.start()) {
            application.awaitReady(START);
            assertThat(application.log()).contains("Starting AOT-processed AotApplication");
            await().until(() -> happened("daemon") && happened("cron"));

            assertThat(application
                            .post("/forge/jobs", "{\"name\": \"note\", \"payload\": {\"text\": \"hello\"}}")
                            .statusCode())
                    .isEqualTo(202);
            await().until(() -> happened("job hello") && happened("workflow hello") && completedJobs("note") == 1);

            assertThat(application.get("/happenings").statusCode()).isEqualTo(200);
            // The second request is denied, or the third if the node decided the first one without the database.
            await().until(() -> application.get("/happenings").statusCode() == 429);
            assertThat(application.get("/actuator/forgecluster").body()).contains("\"leaders\"");
            await().until(() -> application.get("/actuator/health/readiness").statusCode() == 200);

            application.terminate();
            assertThat(application.awaitExit(STOP)).isEqualTo(143);
        }
    }

    private static void process(Path sources, Path resources, Path classes) {
        new SpringApplicationAotProcessor(
                        AotApplication.class,
                        AbstractAotProcessor.Settings.builder()
                                .sourceOutput(sources)
                                .resourceOutput(resources)
                                .classOutput(classes)
                                .groupId("dev.forge.cluster")
                                .artifactId("aot")
                                .build(),
                        BUILD_TIME)
                .process();
    }

    private static void compile(Path sources, Path classes) throws IOException {
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        var messages = new StringWriter();
        String path = classes + File.pathSeparator + System.getProperty("java.class.path");
        try (var files = compiler.getStandardFileManager(null, null, null);
                Stream<Path> all = Files.walk(sources)) {
            List<Path> units = all.filter(Files::isRegularFile).toList();
            boolean compiled = compiler.getTask(
                            messages,
                            files,
                            null,
                            List.of("-d", classes.toString(), "-cp", path, "-proc:none", "-nowarn"),
                            null,
                            files.getJavaFileObjectsFromPaths(units))
                    .call();
            assertThat(compiled).as(messages.toString()).isTrue();
        }
    }

    private boolean happened(String name) {
        return database.jdbc()
                        .sql("SELECT to_regclass('happening') IS NOT NULL")
                        .query(Boolean.class)
                        .single()
                && database.jdbc()
                        .sql("SELECT EXISTS (SELECT FROM happening WHERE name = ?)")
                        .param(name)
                        .query(Boolean.class)
                        .single();
    }

    private long completedJobs(String name) {
        return database.jdbc()
                .sql("SELECT count(*) FROM forge_jobs WHERE name = ? AND status = 'completed'")
                .param(name)
                .query(Long.class)
                .single();
    }
}
