// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.web;

import dev.forge.cluster.internal.job.enqueue.SubmitterKeys;
import dev.forge.cluster.job.JobInfo;
import jakarta.servlet.http.HttpServletRequest;
import java.security.Principal;

/**
 * The client of a request: an authenticated user or the anonymous client. Without Spring Security, or security of the container, all
 * clients are the anonymous one.
 *
 * @param text the text in the metadata of its jobs; that of a user never equals that of the anonymous client
 */
record Submitter(String text) {

    private static final String USER = "user:";
    private static final Submitter ANONYMOUS = new Submitter("anonymous");

    static Submitter of(HttpServletRequest request) {
        // Also null for the anonymous user of Spring Security.
        Principal principal = request.getUserPrincipal();
        return principal == null ? ANONYMOUS : new Submitter(USER + principal.getName());
    }

    /** Returns the name of the user; for the anonymous client its text. */
    String name() {
        return text.startsWith(USER) ? text.substring(USER.length()) : text;
    }

    /** Returns the unique key of a job with that key of the client. */
    String uniqueKey(String key) {
        return SubmitterKeys.of(text, key);
    }

    boolean hasSubmitted(JobInfo job) {
        return text.equals(job.metadata().get(SubmitterKeys.SUBMITTER));
    }
}
