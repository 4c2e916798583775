// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package sample;

import dev.forge.cluster.job.JobName;
import java.util.UUID;

/**
 * The payload of the job that processes an order.
 *
 * @param workMillis how long the job takes
 * @param failTimes the number of attempts that fail before one succeeds
 */
@JobName("process-order")
record ProcessOrder(UUID orderId, Long workMillis, Integer failTimes) {
    ProcessOrder {
        workMillis = workMillis == null ? 0L : workMillis;
        failTimes = failTimes == null ? 0 : failTimes;
    }
}
