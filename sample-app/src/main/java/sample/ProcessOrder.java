package sample;

import dev.forge.cluster.job.JobName;
import java.util.UUID;

/**
 * The job that an order becomes.
 *
 * @param workMillis how long it takes
 * @param failTimes how many attempts fail before one succeeds
 */
@JobName("process-order")
record ProcessOrder(UUID orderId, Long workMillis, Integer failTimes) {
    ProcessOrder {
        workMillis = workMillis == null ? 0L : workMillis;
        failTimes = failTimes == null ? 0 : failTimes;
    }
}
