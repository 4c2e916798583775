// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import dev.forge.cluster.cron.ClusterCron;
import dev.forge.cluster.cron.CronContext;
import dev.forge.cluster.daemon.ClusterDaemon;
import dev.forge.cluster.daemon.DaemonContext;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.NonRetryableJobException;
import dev.forge.cluster.workflow.ClusterWorkflow;
import dev.forge.cluster.workflow.WorkflowContext;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.annotation.Bean;
import org.springframework.security.config.Customizer;
import org.springframework.security.config.annotation.web.builders.HttpSecurity;
import org.springframework.security.core.userdetails.User;
import org.springframework.security.core.userdetails.UserDetailsService;
import org.springframework.security.crypto.bcrypt.BCryptPasswordEncoder;
import org.springframework.security.crypto.password.PasswordEncoder;
import org.springframework.security.provisioning.InMemoryUserDetailsManager;
import org.springframework.security.web.SecurityFilterChain;

/** An application with some of everything, whose data try to become markup. */
@SpringBootConfiguration(proxyBeanMethods = false)
@EnableAutoConfiguration
class DashboardTestApplication {

    static final String MARKUP = "<img src=x onerror=\"window.xss=1\"><script>window.xss=1</script>";

    /** The cookie is valid for all paths, because a test reaches the application through a proxy with another path. */
    static final String PROPERTIES = """
            spring.application.name=orders
            forge.cluster.node.name=shop-1
            server.servlet.context-path=/shop
            server.servlet.session.cookie.path=/
            forge.cluster.operations.authorities.view=ROLE_ADMIN,ROLE_VIEWER,ROLE_OPERATOR
            forge.cluster.operations.authorities.operate=ROLE_ADMIN,ROLE_OPERATOR
            forge.cluster.dashboard.trace-url=https://traces.test/{traceId}
            """;

    @ClusterJob(name = "completes")
    Map<String, String> complete(Map<String, String> payload, JobContext job) {
        job.log("line with " + MARKUP);
        return Map.of("echo", String.valueOf(payload.get("text")));
    }

    @ClusterJob(name = "fails")
    void fail() {
        throw new NonRetryableJobException(MARKUP);
    }

    @ClusterJob(name = "waits", concurrency = 2)
    void nothing() {}

    /** Opens the gate for jobs that block. */
    final CountDownLatch released = new CountDownLatch(1);

    /** Whether jobs that need the bank succeed. */
    final AtomicBoolean bankIsUp = new AtomicBoolean();

    @ClusterJob(name = "blocks")
    void block() throws InterruptedException {
        if (!released.await(5, TimeUnit.MINUTES)) {
            throw new IllegalStateException("The test did not end");
        }
    }

    @ClusterJob(name = "call-bank")
    void callBank() {
        if (!bankIsUp.get()) {
            throw new NonRetryableJobException("The bank is down");
        }
    }

    /** Fails unless its payload was corrected. */
    @ClusterJob(name = "charge")
    void charge(Map<String, String> payload) {
        if (!"valid".equals(payload.get("card"))) {
            throw new NonRetryableJobException("Invalid card");
        }
    }

    /** Waits until somebody approves. */
    @ClusterWorkflow(name = "approval")
    String approve(WorkflowContext run) {
        return run.awaitSignal("approve", String.class);
    }

    /** Fails while the bank is down. */
    @ClusterWorkflow(name = "payment")
    void pay(WorkflowContext run) {
        run.step(
                "pay",
                Boolean.class,
                () -> {
                    callBank();
                    return true;
                },
                step -> step.withMaxAttempts(1));
    }

    @ClusterCron(name = "nightly-report", value = "0 3 * * *")
    void nightlyReport(CronContext cron) {
        throw new NonRetryableJobException("No paper");
    }

    @ClusterCron(name = "new-year", value = "0 0 1 1 *")
    void report(CronContext cron) {}

    @ClusterDaemon(name = "feed")
    void feed(DaemonContext daemon) throws InterruptedException {
        daemon.note(MARKUP);
        while (!daemon.awaitStop(Duration.ofHours(1))) {
            daemon.note("again");
        }
    }

    @Bean
    SecurityFilterChain security(HttpSecurity http) {
        return http.authorizeHttpRequests(requests -> requests.requestMatchers("/forge/dashboard/**")
                        .authenticated()
                        .anyRequest()
                        .permitAll())
                .formLogin(Customizer.withDefaults())
                .httpBasic(Customizer.withDefaults())
                .build();
    }

    /** The cheapest one: with the usual one, each request would spend most of its time on its password. */
    @Bean
    PasswordEncoder passwordEncoder() {
        return new BCryptPasswordEncoder(4);
    }

    @Bean
    UserDetailsService users(PasswordEncoder passwordEncoder) {
        String password = passwordEncoder.encode("pw");
        return new InMemoryUserDetailsManager(
                User.withUsername("ada").password(password).roles("ADMIN").build(),
                User.withUsername("olga").password(password).roles("OPERATOR").build(),
                User.withUsername("vic").password(password).roles("VIEWER").build(),
                User.withUsername(MARKUP).password(password).roles("ADMIN").build(),
                User.withUsername("sam").password(password).roles("USER").build());
    }
}
