// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
/**
 * A claimed job on a thread of this node: its attempt, the call of its handler, transactions, leases, checkpoints, logs.
 *
 * <p>An attempt is in one state, which changes in one method of {@code Attempt}. What each event does in each state, a dash for
 * nothing:
 *
 * <pre>
 *            QUEUED        RUNNING       RETURNED      ENDING        ENDED
 * START      RUNNING *     -             -             -             -
 * RETURN     -             RETURNED      -             -             -
 * TIMEOUT    -             interrupted   -             -             -
 * ASK        asked         asked         asked         asked         -
 * DRAIN      stops         interrupted   -             -             -
 * LOSE       ENDED         interrupted   lost          lost          -
 * WITHDRAW   ENDED         -             -             -             -
 * ISOLATE    -             QUEUED **     QUEUED **     QUEUED **     -
 * END        -             ENDING        ENDING        -             -
 * SETTLE     -             -             -             ENDED         -
 * </pre>
 *
 * <p>{@code *} unless it is told to stop. {@code **} without the timeout of the common attempt; {@code ENDED} if the claim is lost.
 * The first reason to stop counts, except that a lost claim overrides the others. A cancelled job is a lost claim that is reported
 * otherwise. RETURNED is reached before the rollback of a failed transaction, ENDING before the statement that ends the claim: from
 * then on neither a timeout nor the end of a drain decides anything, and only the update count of that statement tells whether the
 * claim was still valid. A response that is lost changes no state: the end is written again, and the row shows whether the first
 * statement has ended the job.
 */
@NullMarked
package dev.forge.cluster.internal.job.run;

import org.jspecify.annotations.NullMarked;
