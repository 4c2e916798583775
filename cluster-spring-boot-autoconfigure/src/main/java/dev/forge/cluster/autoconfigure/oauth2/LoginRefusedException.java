// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.oauth2;

import java.time.Duration;
import org.springframework.http.HttpStatus;

/** A login that is refused because too many have begun. */
final class LoginRefusedException extends RuntimeException {

    private static final long serialVersionUID = 1L;

    private final HttpStatus status;
    private final Duration retryAfter;

    LoginRefusedException(HttpStatus status, Duration retryAfter, String message) {
        // Without a stack trace, because a flood creates many of these.
        super(message, null, false, false);
        this.status = status;
        this.retryAfter = retryAfter;
    }

    HttpStatus status() {
        return status;
    }

    Duration retryAfter() {
        return retryAfter;
    }
}
