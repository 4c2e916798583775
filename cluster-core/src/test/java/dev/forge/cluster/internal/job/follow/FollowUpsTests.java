// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.follow;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

class FollowUpsTests {

    private final AtomicLong nanos = new AtomicLong();
    private final List<Integer> tried = new ArrayList<>();

    private long later() {
        return nanos.addAndGet(Duration.ofMinutes(1).toNanos());
    }

    @Test
    void failed_pass_is_followed_by_smaller_ones_and_a_successful_one_by_larger_ones() {
        int[] most = {100};
        var followUps = new FollowUps("loop", nanos::get, ids -> {
            tried.add(ids.size());
            if (ids.size() > most[0]) {
                throw new IllegalStateException("too many");
            }
            ids.clear();
        });
        Stream.generate(UUID::randomUUID).limit(400).forEach(followUps::add);
        assertThatIllegalStateException().isThrownBy(followUps::pass);
        later();
        assertThatIllegalStateException().isThrownBy(followUps::pass);
        most[0] = 500;
        for (int i = 0; i < 3; i++) {
            later();
            followUps.pass();
        }
        assertThat(tried).containsExactly(400, 200, 100, 200, 100);
        later();
        followUps.pass();
        assertThat(tried).hasSize(5);
    }

    @Test
    void changes_that_a_failed_or_a_short_pass_has_followed_up_are_not_repeated() {
        var done = new ArrayList<UUID>();
        var followUps = new FollowUps("loop", nanos::get, ids -> {
            done.add(ids.remove(0));
            if (done.size() == 2) {
                throw new IllegalStateException("lost");
            }
        });
        Stream.generate(UUID::randomUUID).limit(4).forEach(followUps::add);
        followUps.pass();
        later();
        assertThatIllegalStateException().isThrownBy(followUps::pass);
        for (int i = 0; i < 5; i++) {
            later();
            followUps.pass();
        }
        assertThat(done).hasSize(4).doesNotHaveDuplicates();
    }
}
