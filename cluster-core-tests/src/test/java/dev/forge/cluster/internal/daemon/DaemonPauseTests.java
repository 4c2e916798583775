// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.daemon;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.read.ListAppender;
import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.daemon.DaemonInfo;
import dev.forge.cluster.daemon.DaemonStatus;
import dev.forge.cluster.internal.daemon.TestDaemons.DaemonNode;
import dev.forge.cluster.internal.node.Notifications;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.slf4j.LoggerFactory;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

/** Pause and resume by operators. */
@ClusterPostgres
class DaemonPauseTests extends AbstractDaemonTests {

    DaemonPauseTests(TestDatabase database) {
        super(database);
    }

    @Test
    void paused_daemon_runs_on_no_node_until_it_is_resumed() {
        DaemonNode one = nodes.start("one", feed());
        running(one);
        DaemonNode two = nodes.start("two", feed());
        assertThat(two.daemons().resume("feed")).isFalse();
        assertThat(two.daemons().pause("feed")).isTrue();
        assertThat(two.daemons().pause("feed")).isFalse();
        assertThat(two.daemons().find("feed").orElseThrow().paused()).isTrue();
        await().until(() -> !feed.isRunning() && status("feed") == DaemonStatus.PENDING);
        assertThat(nodes.instance("feed", 0).nodeId()).isNull();
        one.stop();
        nodes.start("three", feed());
        await().during(Duration.ofMillis(1_500)).until(() -> feed.calls.size() == 1);
        assertThat(two.daemons().find("feed").orElseThrow().paused()).isTrue();
        long start = System.nanoTime();
        assertThat(two.daemons().resume("feed")).isTrue();
        await().until(feed::isRunning);
        System.out.printf("resumed: runs after %d ms%n", (feed.calls.get(1).startedAt() - start) / 1_000_000);
        assertThat(feed.most.get()).isEqualTo(1);
    }

    @Test
    void daemon_that_is_paused_and_resumed_quickly_runs_and_its_row_shows_it() {
        DaemonNode one = nodes.start("one", feed());
        running(one);
        for (int round = 0; round < 10; round++) {
            one.daemons().pause("feed");
            if (round % 2 == 0) {
                await().until(() -> !feed.isRunning());
            }
            one.daemons().resume("feed");
        }
        await().until(() -> feed.isRunning() && status("feed") == DaemonStatus.RUNNING);
        assertThat(nodes.instance("feed", 0).nodeId()).isEqualTo(one.node().id());
        await().during(Duration.ofSeconds(1)).until(() -> feed.isRunning() && status("feed") == DaemonStatus.RUNNING);
        assertThat(feed.most.get()).isEqualTo(1);
    }

    @Test
    void daemon_is_paused_and_resumed_without_notifications() {
        String role = "runtime_" + database.name();
        jdbc.sql("CREATE ROLE %s LOGIN PASSWORD 'secret'".formatted(role)).update();
        jdbc.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO " + role)
                .update();
        jdbc.sql("REVOKE EXECUTE ON FUNCTION pg_catalog.pg_notify(text, text) FROM PUBLIC")
                .update();
        var log = new ListAppender<ILoggingEvent>();
        log.start();
        var logger = (Logger) LoggerFactory.getLogger(Notifications.class);
        logger.addAppender(log);
        try {
            var source = new DriverManagerDataSource(database.url(), role, "secret");
            DaemonNode member = nodes.start("a", source, s -> s, feed());
            running(member);
            member.engine().announce();
            assertThat(member.daemons().pause("feed")).isTrue();
            await().until(() -> !feed.isRunning());
            assertThat(member.daemons().resume("feed")).isTrue();
            running(member);
            member.stop();
            assertThat(log.list)
                    .filteredOn(line -> line.getLevel() == Level.WARN
                            && line.getFormattedMessage().contains("(" + DaemonEngine.DAEMONS_CHANGED + ")"))
                    .hasSize(1);
        } finally {
            logger.detachAppender(log);
            jdbc.sql("GRANT EXECUTE ON FUNCTION pg_catalog.pg_notify(text, text) TO PUBLIC")
                    .update();
            jdbc.sql("DROP OWNED BY " + role).update();
            jdbc.sql("DROP ROLE " + role).update();
        }
    }

    @Test
    void unknown_daemon_cannot_be_paused_and_observer_cannot_pause() {
        DaemonNode one = nodes.start("one", feed());
        assertThat(one.daemons().pause("nobody")).isFalse();
        assertThat(one.daemons().resume("nobody")).isFalse();
        assertThat(one.daemons().find("nobody")).isEmpty();
        await().until(() -> !one.daemons().list().isEmpty());
        DaemonNode observer = nodes.start("observer", s -> as(s, NodeMode.OBSERVER, NodeRole.values()), feed());
        assertThatExceptionOfType(MutationRefusedException.class)
                .isThrownBy(() -> observer.daemons().pause("feed"));
        assertThat(observer.daemons().list()).extracting(DaemonInfo::name).containsExactly("feed");
    }
}
