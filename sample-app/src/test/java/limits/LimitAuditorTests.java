// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package limits;

import static limits.LimitAuditor.excesses;
import static limits.LimitAuditor.outOfOrder;
import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.Map;
import java.util.UUID;
import limits.LimitAuditor.Hold;
import limits.LimitAuditor.Snapshot;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** The auditor, with made-up claims. */
class LimitAuditorTests {

    private static final UUID A = new UUID(0, 1);
    private static final UUID B = new UUID(0, 2);
    private static final UUID C = new UUID(0, 3);

    private static Hold hold(UUID job, long claimedBy, String seen, @Nullable Long releasedBy) {
        return new Hold(job, 1, claimedBy, Snapshot.parse(seen), releasedBy);
    }

    @Test
    void snapshot_sees_what_was_committed_when_it_was_taken() {
        Snapshot snapshot = Snapshot.parse("10:15:10,12");
        assertThat(snapshot.sees(9)).isTrue();
        assertThat(snapshot.sees(10)).isFalse();
        assertThat(snapshot.sees(11)).isTrue();
        assertThat(snapshot.sees(12)).isFalse();
        assertThat(snapshot.sees(14)).isTrue();
        assertThat(snapshot.sees(15)).isFalse();
        assertThat(Snapshot.parse("15:15:").sees(14)).isTrue();
    }

    @Test
    void claim_after_an_end_that_it_sees_obeys_the_limit() {
        assertThat(excesses(List.of(hold(A, 10, "10:10:", 11L), hold(B, 12, "12:12:", null)), 1))
                .isEmpty();
    }

    @Test
    void claim_before_the_end_of_another_one_exceeds_the_limit() {
        // Transaction 11 ends the first claim, but was not committed when the second one was made.
        Hold second = hold(B, 12, "11:13:11", 20L);
        List<Hold> holds = List.of(hold(A, 10, "10:10:", 11L), second);
        assertThat(excesses(holds, 1)).singleElement().satisfies(excess -> {
            assertThat(excess.claim()).isEqualTo(second);
            assertThat(excess.holds()).hasSize(2);
        });
        assertThat(excesses(holds, 2)).isEmpty();
    }

    @Test
    void claims_that_do_not_see_each_other_exceed_the_limit() {
        assertThat(excesses(List.of(hold(A, 10, "10:12:11", 20L), hold(B, 11, "10:12:10", 21L)), 1))
                .hasSize(2);
    }

    @Test
    void claims_of_one_transaction_count_together() {
        // A snapshot does not list its own transaction.
        assertThat(excesses(List.of(hold(A, 10, "10:12:", 20L), hold(B, 10, "10:12:", 21L)), 1))
                .hasSize(2);
        assertThat(excesses(List.of(hold(A, 10, "10:12:", 20L), hold(B, 10, "10:12:", 21L)), 2))
                .isEmpty();
    }

    @Test
    void later_claim_does_not_count_for_an_earlier_one() {
        assertThat(excesses(
                        List.of(hold(A, 10, "10:10:", 13L), hold(B, 11, "11:11:", 12L), hold(C, 14, "14:14:", null)),
                        2))
                .isEmpty();
    }

    @Test
    void claim_before_the_end_of_its_predecessor_is_out_of_order() {
        Hold first = hold(A, 10, "10:10:", 11L);
        Hold early = hold(B, 12, "11:13:11", 14L);
        assertThat(outOfOrder(List.of(A, B), List.of(first, early), Map.of(A, 11L)))
                .containsExactly(early);
        Hold inTime = hold(B, 12, "12:13:", 14L);
        assertThat(outOfOrder(List.of(A, B), List.of(first, inTime), Map.of(A, 11L)))
                .isEmpty();
        assertThat(outOfOrder(List.of(A, B), List.of(inTime), Map.of())).containsExactly(inTime);
    }
}
