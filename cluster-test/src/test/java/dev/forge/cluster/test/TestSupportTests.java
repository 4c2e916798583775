// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.test.peer.JobQueue;
import dev.forge.cluster.test.peer.JobQueue.Claim;
import dev.forge.cluster.test.peer.LeaderElection;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.Test;

@ClusterPostgres
class TestSupportTests {

    @Test
    void one_of_two_elections_is_won_and_the_next_term_follows_a_release(TestDatabase database) {
        var one = new LeaderElection(database);
        var two = new LeaderElection(database);
        assertThat(one.tryBecomeLeader("scheduler")).isTrue();
        assertThat(two.tryBecomeLeader("scheduler")).isFalse();
        assertThat(one.tryBecomeLeader("scheduler")).isTrue();
        assertThat(one.term("scheduler")).hasValue(1);
        one.releaseLeadership("scheduler");
        assertThat(two.tryBecomeLeader("scheduler")).isTrue();
        assertThat(two.term("scheduler")).hasValue(2);
        assertThat(one.term("scheduler")).isEmpty();
        two.releaseLeadership("scheduler");
    }

    @Test
    void job_is_claimed_by_one_of_two_workers(TestDatabase database) {
        var queue = new JobQueue(database);
        UUID id = queue.enqueue("job", "{}");
        List<Claim> one = queue.claim(UUID.randomUUID(), List.of("general"), 10);
        List<Claim> two = queue.claim(UUID.randomUUID(), List.of("general"), 10);
        assertThat(one.size() + two.size()).isOne();
        assertThat(one).extracting(Claim::id).containsExactly(id);
        Claim stale = new Claim(UUID.randomUUID(), id, "job", "{}", 1, 1);
        assertThat(queue.complete(stale)).isFalse();
        assertThat(queue.complete(one.get(0))).isTrue();
    }
}
