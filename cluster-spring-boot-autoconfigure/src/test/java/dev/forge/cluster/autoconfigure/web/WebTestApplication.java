// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.web;

import dev.forge.cluster.autoconfigure.ClusterAutoConfiguration;
import dev.forge.cluster.autoconfigure.audit.AuditAutoConfiguration;
import dev.forge.cluster.autoconfigure.cron.CronAutoConfiguration;
import dev.forge.cluster.autoconfigure.daemon.DaemonAutoConfiguration;
import dev.forge.cluster.autoconfigure.job.JobAutoConfiguration;
import dev.forge.cluster.autoconfigure.leader.LeaderAutoConfiguration;
import dev.forge.cluster.autoconfigure.lock.LockAutoConfiguration;
import dev.forge.cluster.autoconfigure.startup.StartupAutoConfiguration;
import dev.forge.cluster.autoconfigure.state.StateAutoConfiguration;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.job.NonRetryableJobException;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.autoconfigure.ImportAutoConfiguration;
import org.springframework.boot.http.converter.autoconfigure.HttpMessageConvertersAutoConfiguration;
import org.springframework.boot.jackson.autoconfigure.JacksonAutoConfiguration;
import org.springframework.boot.jdbc.autoconfigure.DataSourceAutoConfiguration;
import org.springframework.boot.jdbc.autoconfigure.DataSourceTransactionManagerAutoConfiguration;
import org.springframework.boot.servlet.autoconfigure.MultipartAutoConfiguration;
import org.springframework.boot.tomcat.autoconfigure.servlet.TomcatServletWebServerAutoConfiguration;
import org.springframework.boot.webmvc.autoconfigure.DispatcherServletAutoConfiguration;
import org.springframework.boot.webmvc.autoconfigure.WebMvcAutoConfiguration;
import org.springframework.boot.webmvc.autoconfigure.error.ErrorMvcAutoConfiguration;
import org.springframework.context.annotation.Configuration;

/** A web application with jobs, some of which clients may submit. */
@Configuration(proxyBeanMethods = false)
@ImportAutoConfiguration({
    DataSourceAutoConfiguration.class,
    DataSourceTransactionManagerAutoConfiguration.class,
    JacksonAutoConfiguration.class,
    HttpMessageConvertersAutoConfiguration.class,
    TomcatServletWebServerAutoConfiguration.class,
    DispatcherServletAutoConfiguration.class,
    MultipartAutoConfiguration.class,
    WebMvcAutoConfiguration.class,
    ErrorMvcAutoConfiguration.class,
    ClusterAutoConfiguration.class,
    AuditAutoConfiguration.class,
    CronAutoConfiguration.class,
    DaemonAutoConfiguration.class,
    JobAutoConfiguration.class,
    LeaderAutoConfiguration.class,
    LockAutoConfiguration.class,
    StartupAutoConfiguration.class,
    StateAutoConfiguration.class,
    GatewayAutoConfiguration.class,
    WebAutoConfiguration.class
})
class WebTestApplication {

    static final String JOBS =
            "forge.cluster.web.jobs=process-order,my_task,fails,elsewhere,gone,ml::*,with:colon,urgent";

    record Order(String item, int quantity, @Nullable List<Line> lines) {

        record Line(int number) {}
    }

    @ClusterJob(name = "process-order")
    Map<String, Object> process(Order order) {
        return Map.<String, Object>of("item", order.item, "quantity", order.quantity);
    }

    @ClusterJob(name = "my_task")
    void task(@Nullable Object inputs) {}

    @ClusterJob(name = "fails")
    void fail() {
        throw new NonRetryableJobException("the card 4711 was declined");
    }

    @ClusterJob(name = "urgent", priority = JobPriority.CRITICAL)
    void urgent() {}

    @ClusterJob(name = "secret")
    void secret() {}

    @ClusterJob(name = "ml::train")
    void train() {}

    @ClusterJob(name = "with:colon")
    void colon() {}
}
