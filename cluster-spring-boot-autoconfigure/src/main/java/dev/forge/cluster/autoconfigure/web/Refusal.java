// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.web;

import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.job.JobRejectedException;
import dev.forge.cluster.job.UnknownJobException;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.dao.DataAccessException;
import org.springframework.dao.DataIntegrityViolationException;
import org.springframework.http.HttpStatus;
import org.springframework.transaction.TransactionException;

/** A rejected HTTP request: the status and a message for the client. */
final class Refusal extends RuntimeException {

    private static final long serialVersionUID = 1L;

    private static final Logger log = LoggerFactory.getLogger(Refusal.class);

    private final HttpStatus status;
    private final String detail;
    private final transient @Nullable Map<String, Object> place;

    private Refusal(HttpStatus status, String detail, @Nullable Map<String, Object> place, @Nullable Throwable cause) {
        // Without a stack trace: it is a response and not a failure.
        super(detail, cause, false, false);
        this.status = status;
        this.detail = detail;
        this.place = place;
    }

    Refusal(HttpStatus status, String detail) {
        this(status, detail, null, null);
    }

    static Refusal malformed(String detail) {
        return new Refusal(HttpStatus.BAD_REQUEST, detail);
    }

    /** The same response for an unknown name and for one that is not allowed, so that clients cannot probe names. */
    static Refusal unknownName() {
        return new Refusal(HttpStatus.NOT_FOUND, "no job with that name can be submitted here");
    }

    static Refusal unavailable() {
        return new Refusal(HttpStatus.SERVICE_UNAVAILABLE, "the database does not respond; try again");
    }

    /** Converts a failure into a response; only messages that are written for clients are passed on. */
    static Refusal of(RuntimeException failure) {
        if (failure instanceof Refusal refusal) {
            return refusal;
        }
        if (failure instanceof UnknownJobException) {
            // The message of the exception lists the existing jobs.
            return unknownName();
        }
        if (failure instanceof JobRejectedException && isCodecFailure(failure)) {
            log.debug("HTTP: could not write the payload of a request as JSON", failure);
            return malformed("the payload cannot be written as JSON");
        }
        if (failure instanceof JobRejectedException) {
            return new Refusal(HttpStatus.BAD_REQUEST, String.valueOf(failure.getMessage()), null, failure);
        }
        if (failure instanceof MutationRefusedException) {
            return new Refusal(HttpStatus.SERVICE_UNAVAILABLE, String.valueOf(failure.getMessage()), null, failure);
        }
        if (failure instanceof DataIntegrityViolationException) {
            // For example a number that is too large. The message of PostgreSQL quotes the statement, so it is not
            // passed on.
            log.debug("HTTP: PostgreSQL cannot store a value of a request", failure);
            return new Refusal(HttpStatus.BAD_REQUEST, "contains a value that PostgreSQL cannot store", null, failure);
        }
        if (failure instanceof DataAccessException || failure instanceof TransactionException) {
            log.warn("HTTP: rejected a request with status 503: {}", ErrorText.brief(failure));
            return unavailable();
        }
        log.error("HTTP: a request failed", ErrorText.loggable(failure));
        return new Refusal(
                HttpStatus.INTERNAL_SERVER_ERROR, "internal error; see the log of the server", null, failure);
    }

    /** The message of the codec may name classes. */
    private static boolean isCodecFailure(RuntimeException failure) {
        return failure.getCause() != null && failure.getCause().getCause() != null;
    }

    /** Adds which of several tasks was rejected. */
    Refusal at(int index, @Nullable String id) {
        var known = new LinkedHashMap<String, Object>();
        known.put("index", index);
        if (id != null) {
            known.put("id", id);
        }
        return new Refusal(status, detail, known, getCause());
    }

    HttpStatus status() {
        return status;
    }

    String detail() {
        return detail;
    }

    /** Returns the members of a problem as in RFC 9457. */
    Map<String, Object> problem() {
        var problem = new LinkedHashMap<String, Object>();
        problem.put("title", status.getReasonPhrase());
        problem.put("status", status.value());
        problem.put("detail", detail);
        return problem;
    }

    /** Returns which of several tasks was rejected. */
    @Nullable
    Map<String, Object> place() {
        return place;
    }
}
