// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.aot;

import dev.forge.cluster.cron.ClusterCron;
import dev.forge.cluster.daemon.ClusterDaemon;
import dev.forge.cluster.daemon.DaemonContext;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.ratelimit.RateLimited;
import dev.forge.cluster.workflow.ClusterWorkflow;
import dev.forge.cluster.workflow.WorkflowContext;
import dev.forge.cluster.workflow.Workflows;
import java.time.Duration;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.security.config.annotation.web.builders.HttpSecurity;
import org.springframework.security.web.SecurityFilterChain;
import org.springframework.stereotype.Component;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;

/** An application with JPA, Spring Data, a web server, Actuator and one handler of each kind. */
@SpringBootApplication
public class AotApplication {

    /** Starts the application. */
    public static void main(String... args) {
        SpringApplication.run(AotApplication.class, args);
    }

    @Bean
    SecurityFilterChain security(HttpSecurity http) {
        return http.authorizeHttpRequests(requests -> requests.anyRequest().permitAll())
                .csrf(csrf -> csrf.disable())
                .build();
    }

    record Note(String text) {}

    @Component
    static class Work {

        private final Happenings happenings;
        private final Workflows workflows;

        Work(Happenings happenings, Workflows workflows) {
            this.happenings = happenings;
            this.workflows = workflows;
        }

        @ClusterJob(name = "note")
        @Transactional
        public Note note(Note note) {
            happenings.save(new Happening("job " + note.text()));
            workflows.start("greeting", note, "greeting-of-the-job");
            return note;
        }

        @ClusterWorkflow(name = "greeting", version = "1")
        public String greet(WorkflowContext workflow, Note note) {
            return workflow.transactionalStep(
                    "greet", String.class, () -> happenings.save(new Happening("workflow " + note.text())).name);
        }

        @ClusterCron(name = "tick", every = "1s")
        @Transactional
        public void tick() {
            happenings.save(new Happening("cron"));
        }

        @ClusterDaemon(name = "watch")
        public void watch(DaemonContext daemon) throws InterruptedException {
            daemon.fenced(() -> {
                happenings.save(new Happening("daemon"));
            });
            while (!daemon.awaitStop(Duration.ofSeconds(1))) {
                // Waits for the request to stop.
            }
        }
    }

    @RestController
    static class Api {

        private final Happenings happenings;

        Api(Happenings happenings) {
            this.happenings = happenings;
        }

        @GetMapping("/happenings")
        @RateLimited(requests = 1, per = "1h")
        public int happenings() {
            return happenings.findByName("cron").size();
        }
    }
}
