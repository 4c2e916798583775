// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.leader;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.autoconfigure.NodeRuntime;
import dev.forge.cluster.autoconfigure.TestApplications;
import dev.forge.cluster.leader.LeaderRole;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.leader.LeadershipAcquired;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.Test;
import org.slf4j.MDC;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.event.EventListener;

/** Beans with {@link LeaderRole} and listeners to leadership events, in applications on a database. */
@ClusterPostgres
class LeaderRoleTests {

    private final TestDatabase database;

    LeaderRoleTests(TestDatabase database) {
        this.database = database;
    }

    private ApplicationContextRunner runner() {
        return TestApplications.on(database).withPropertyValues("forge.cluster.node.name=first");
    }

    @Test
    void bean_with_a_leader_role_is_elected_and_receives_the_event() {
        runner().withBean(Reports.class).run(context -> {
            Reports reports = context.getBean(Reports.class);
            await().until(() -> !reports.acquired.isEmpty());
            // A paused machine may have lost the term since the event; then the next term follows.
            await().until(() -> context.getBean(Leadership.class).isLeader("reports"));
            assertThat(reports.acquired.get(0).term()).isPositive();
        });
    }

    @LeaderRole("reports")
    static class Reports {
        final List<LeadershipAcquired> acquired = new CopyOnWriteArrayList<>();

        @EventListener(condition = "#event.role == 'reports'")
        void on(LeadershipAcquired event) {
            acquired.add(event);
        }
    }

    @Test
    void listener_runs_on_the_event_thread_with_the_node_in_its_mdc() {
        runner().withBean(Listener.class).run(context -> {
            Listener listener = context.getBean(Listener.class);
            await().until(() -> !listener.origins.isEmpty());
            UUID id = context.getBean(NodeRuntime.class).node().id();
            assertThat(listener.origins).containsOnly("forge-cluster-events-1 first " + id);
        });
    }

    static class Listener {
        final List<String> origins = new CopyOnWriteArrayList<>();

        @EventListener
        void on(LeadershipAcquired event) {
            origins.add("%s %s %s"
                    .formatted(Thread.currentThread().getName(), MDC.get("forge.node.name"), MDC.get("forge.node.id")));
        }
    }
}
