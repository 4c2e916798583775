// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import dev.forge.cluster.internal.database.ServerFailure;
import org.slf4j.Logger;

/**
 * Logs a failure that repeats once when it begins and once when it is over, so that an outage does not fill the log. Failures
 * in between are logged at DEBUG. Used by one thread at a time.
 */
public final class FailureLog {

    private final Logger log;
    private final String subject;
    private int failures;

    /** @param subject what fails, with which each line begins */
    public FailureLog(Logger log, String subject) {
        this.log = log;
        this.subject = subject;
    }

    /**
     * Records a failure.
     *
     * @param consequence what follows from it
     */
    public void failed(String consequence, Throwable failure) {
        if (failures++ > 0) {
            log.debug("{}: failed {} times in a row", subject, failures, failure);
        } else if (ServerFailure.caused(failure)) {
            log.warn("{}: {}: {}", subject, consequence, ServerFailure.brief(failure));
        } else {
            log.warn("{}: {}", subject, consequence, ErrorText.loggable(failure));
        }
    }

    /** Records a success, which ends a row of failures. */
    public void succeeded() {
        if (failures > 0) {
            log.info("{}: works again after {} failures", subject, failures);
            failures = 0;
        }
    }
}
