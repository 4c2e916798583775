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

/** A request over HTTP that cannot be served: its status, and a sentence for the client. */
final class Refusal extends RuntimeException {

    private static final long serialVersionUID = 1L;

    private static final Logger log = LoggerFactory.getLogger(Refusal.class);

    private final HttpStatus status;
    private final String detail;
    private final transient @Nullable Map<String, Object> place;

    private Refusal(HttpStatus status, String detail, @Nullable Map<String, Object> place, @Nullable Throwable cause) {
        // An answer rather than a fault: nobody reads its stack.
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

    /** The same for a name that does not exist and for one that is not on the list: names must not be probed. */
    static Refusal unknownName() {
        return new Refusal(HttpStatus.NOT_FOUND, "no job of that name can be submitted here");
    }

    static Refusal unavailable() {
        return new Refusal(HttpStatus.SERVICE_UNAVAILABLE, "the database does not answer; try again");
    }

    /** What a failure means to the client; only what was written for clients passes on. */
    static Refusal of(RuntimeException failure) {
        if (failure instanceof Refusal refusal) {
            return refusal;
        }
        if (failure instanceof UnknownJobException) {
            // Its message names the jobs that there are.
            return unknownName();
        }
        if (failure instanceof JobRejectedException && isCodecFailure(failure)) {
            log.debug("a request over HTTP holds a payload that cannot be written", failure);
            return malformed("the payload cannot be written as JSON");
        }
        if (failure instanceof JobRejectedException) {
            return new Refusal(HttpStatus.BAD_REQUEST, String.valueOf(failure.getMessage()), null, failure);
        }
        if (failure instanceof MutationRefusedException) {
            return new Refusal(HttpStatus.SERVICE_UNAVAILABLE, String.valueOf(failure.getMessage()), null, failure);
        }
        if (failure instanceof DataIntegrityViolationException) {
            // A number too large for PostgreSQL, say. Which one, it says in words that quote the statement.
            log.debug("a request over HTTP holds what cannot be stored", failure);
            return new Refusal(HttpStatus.BAD_REQUEST, "holds a value that PostgreSQL cannot store", null, failure);
        }
        if (failure instanceof DataAccessException || failure instanceof TransactionException) {
            log.warn("a request over HTTP was answered with 503: {}", ErrorText.brief(failure));
            return unavailable();
        }
        log.error("a request over HTTP failed", ErrorText.loggable(failure));
        return new Refusal(HttpStatus.INTERNAL_SERVER_ERROR, "something went wrong; the log says what", null, failure);
    }

    /** The codec's own words may name classes. */
    private static boolean isCodecFailure(RuntimeException failure) {
        return failure.getCause() != null && failure.getCause().getCause() != null;
    }

    /** Says which of several it was. */
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

    /** As RFC 9457 describes it. */
    Map<String, Object> problem() {
        var problem = new LinkedHashMap<String, Object>();
        problem.put("title", status.getReasonPhrase());
        problem.put("status", status.value());
        problem.put("detail", detail);
        return problem;
    }

    /** Which of several it was. */
    @Nullable
    Map<String, Object> place() {
        return place;
    }
}
