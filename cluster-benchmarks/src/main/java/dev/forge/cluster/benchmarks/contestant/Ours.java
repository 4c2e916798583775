// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks.contestant;

import dev.forge.cluster.benchmarks.measure.Server;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.node.ClusterNodes;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.Banner;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.logging.LoggingSystem;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.support.GenericApplicationContext;

/** A Spring Boot application with the starter and Actuator: what a user has, with default settings unless a part changes them. */
public final class Ours implements AutoCloseable {

    /** The payload of the job that every contestant runs. */
    public record Trivial(long orderId) {}

    public static final int SLOTS = 20;
    public static final String JOB = "trivial";

    /** Settings of a node that claims no jobs: another node runs the jobs that it enqueues, or they stay pending. */
    public static final Map<String, String> NO_WORKER =
            Map.of("forge.cluster.node.roles", "gateway,function,scheduler");

    private final SpringApplicationBuilder application;
    private @Nullable ConfigurableApplicationContext context;
    private @Nullable Jobs jobs;

    static {
        // Applications that start at the same time would configure logging at the same time.
        System.setProperty(LoggingSystem.SYSTEM_PROPERTY, LoggingSystem.NONE);
    }

    @SpringBootConfiguration
    @EnableAutoConfiguration
    static class Application {}

    /** Creates an application with default settings; see {@link #Ours(String, Server, Object, Map)}. */
    public Ours(String name, Server server, Object handlers) {
        this(name, server, handlers, Map.of());
    }

    /**
     * Creates an application, which uses the pool of the server as its {@code DataSource}.
     *
     * @param handlers an object with the application's handlers, such as those of {@link Handlers}
     * @param settings properties that differ from the defaults
     */
    public Ours(String name, Server server, Object handlers, Map<String, String> settings) {
        Map<String, Object> properties = new HashMap<>(settings);
        properties.put("forge.cluster.node.name", name);
        properties.put("forge.cluster.worker.max-concurrent-jobs", SLOTS);
        properties.put("forge.cluster.direct-connection.url", server.url());
        properties.put("spring.application.name", "benchmarks");
        application = new SpringApplicationBuilder(Application.class)
                .web(WebApplicationType.NONE)
                .bannerMode(Banner.Mode.OFF)
                .registerShutdownHook(false)
                .properties(properties)
                .initializers(created -> addBeans((GenericApplicationContext) created, server, handlers));
    }

    private static void addBeans(GenericApplicationContext context, Server server, Object handlers) {
        // Other contestants and nodes use the pool, too: it stays open when the application ends.
        context.registerBean(
                "dataSource", DataSource.class, server::pool, definition -> definition.setDestroyMethodName(""));
        addBean(context, handlers, handlers.getClass());
    }

    private static <T> void addBean(GenericApplicationContext context, Object bean, Class<T> type) {
        context.registerBean("handlers", type, () -> type.cast(bean));
    }

    public void start() {
        context = application.run();
        jobs = context.getBean(Jobs.class);
    }

    public UUID id() {
        return Objects.requireNonNull(context)
                .getBean(ClusterNodes.class)
                .self()
                .orElseThrow()
                .id();
    }

    public Jobs jobs() {
        return Objects.requireNonNull(jobs);
    }

    public void enqueueOne() {
        jobs().enqueue(new Trivial(42), JobOptions.defaults());
    }

    @Override
    public void close() {
        if (context != null) {
            context.close();
        }
    }
}
