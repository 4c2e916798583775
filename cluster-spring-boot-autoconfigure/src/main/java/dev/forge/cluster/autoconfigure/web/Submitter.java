package dev.forge.cluster.autoconfigure.web;

import dev.forge.cluster.internal.job.SubmitterKeys;
import dev.forge.cluster.job.JobInfo;
import jakarta.servlet.http.HttpServletRequest;
import java.security.Principal;

/**
 * Who sends a request: a user whom the application's security has authenticated, or anybody. Without Spring Security, or
 * another container security, all clients are the same anonymous one.
 *
 * @param text as the metadata of its jobs have it; a user of whatever name is not the anonymous one
 */
record Submitter(String text) {

    private static final Submitter ANONYMOUS = new Submitter("anonymous");

    static Submitter of(HttpServletRequest request) {
        // Null for Spring Security's anonymous user, too.
        Principal principal = request.getUserPrincipal();
        return principal == null ? ANONYMOUS : new Submitter("user:" + principal.getName());
    }

    /** The unique key under which a job with the client's key is stored. */
    String uniqueKey(String key) {
        return SubmitterKeys.of(text, key);
    }

    boolean hasSubmitted(JobInfo job) {
        return text.equals(job.metadata().get(SubmitterKeys.SUBMITTER));
    }
}
