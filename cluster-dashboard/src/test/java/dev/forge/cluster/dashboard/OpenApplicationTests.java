// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import static org.assertj.core.api.Assertions.assertThat;
import static org.springframework.test.web.servlet.request.MockMvcRequestBuilders.get;
import static org.springframework.test.web.servlet.request.MockMvcRequestBuilders.post;

import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.operations.JobOperations;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.ClusterWorkflow;
import dev.forge.cluster.workflow.WorkflowContext;
import dev.forge.cluster.workflow.Workflows;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.WebApplicationContextRunner;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.mock.web.MockHttpServletResponse;
import org.springframework.test.web.servlet.MockMvc;
import org.springframework.test.web.servlet.setup.MockMvcBuilders;

/** The dashboard in an application without Spring Security. */
@ClusterPostgres
@ExtendWith(OutputCaptureExtension.class)
class OpenApplicationTests {

    private final TestDatabase database;

    OpenApplicationTests(TestDatabase database) {
        this.database = database;
    }

    @SpringBootConfiguration(proxyBeanMethods = false)
    @EnableAutoConfiguration
    static class Application {

        @ClusterJob(name = "completes")
        String complete(Map<String, String> payload) {
            return "done " + payload;
        }

        @ClusterWorkflow(name = "waits")
        void wait(WorkflowContext wf, Map<String, Object> input) {
            wf.sleep("for long", Duration.ofDays(1));
        }
    }

    @Test
    void page_is_read_only_and_without_values_and_says_so_at_the_start(CapturedOutput output) {
        new WebApplicationContextRunner()
                .withClassLoader(new FilteredClassLoader("org.springframework.security"))
                .withUserConfiguration(Application.class)
                .withPropertyValues(
                        "spring.application.name=orders",
                        "spring.datasource.url=" + database.url(),
                        "spring.datasource.username=" + database.username(),
                        "spring.datasource.password=" + database.password(),
                        "management.endpoints.web.exposure.include=forgecluster",
                        "management.endpoint.forgecluster.show-values=always")
                .run(context -> {
                    assertThat(context).hasNotFailed();
                    assertThat(output).contains("Dashboard: /forge/dashboard/ is read-only and hides values");
                    MockMvc web = MockMvcBuilders.webAppContextSetup(context).build();
                    UUID job = context.getBean(Jobs.class)
                            .enqueueNamed("completes", Map.of("customer", "4711"))
                            .id();
                    assertThat(respond(web, "/forge/dashboard/").getStatus()).isEqualTo(200);
                    assertThat(respond(web, "/forge/dashboard/api/v1/session").getContentAsString())
                            .contains("Read-only, and values are hidden: the application has no Spring Security");
                    assertThat(respond(web, "/forge/dashboard/api/v1/jobs?id=" + job)
                                    .getContentAsString())
                            .contains("******")
                            .doesNotContain("4711");
                    for (String audit : List.of("/forge/dashboard/api/v1/audit", "/actuator/forgecluster/audit")) {
                        MockHttpServletResponse refused = respond(web, audit);
                        assertThat(refused.getStatus()).as(audit).isEqualTo(403);
                        assertThat(refused.getContentAsString()).contains("The audit trail names people");
                    }
                    MockHttpServletResponse refused = web.perform(post("/forge/dashboard/api/v1/jobs")
                                    .contentType("application/json")
                                    .content("{\"id\":\"completes\",\"state\":\"paused\"}"))
                            .andReturn()
                            .getResponse();
                    assertThat(refused.getStatus()).isEqualTo(403);
                    assertThat(context.getBean(JobOperations.class).paused()).isEmpty();
                });
    }

    @Test
    void history_of_a_run_is_not_exported_without_spring_security() {
        new WebApplicationContextRunner()
                .withClassLoader(new FilteredClassLoader("org.springframework.security"))
                .withUserConfiguration(Application.class)
                .withPropertyValues(
                        "spring.application.name=orders",
                        "spring.datasource.url=" + database.url(),
                        "spring.datasource.username=" + database.username(),
                        "spring.datasource.password=" + database.password(),
                        "management.endpoints.web.exposure.include=forgecluster")
                .run(context -> {
                    MockMvc web = MockMvcBuilders.webAppContextSetup(context).build();
                    UUID run = context.getBean(Workflows.class).start("waits", Map.of("vip", true));
                    for (String values : List.of("", "masked", "full")) {
                        String query = values.isEmpty() ? "" : "values=" + values;
                        for (String address : List.of(
                                "/forge/dashboard/api/v1/workflows/history?id=%s&%s".formatted(run, query),
                                "/actuator/forgecluster/workflows/%s/history".formatted(run))) {
                            MockHttpServletResponse refused = respond(web, address);
                            assertThat(refused.getStatus()).as(address).isEqualTo(400);
                            assertThat(refused.getContentAsString())
                                    .contains("hidden from this user")
                                    .doesNotContain("vip");
                        }
                    }
                });
    }

    private static MockHttpServletResponse respond(MockMvc web, String address) throws Exception {
        return web.perform(get(address)).andReturn().getResponse();
    }
}
