// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.web;

/** A request that is refused; becomes a response with the status and the reason. */
final class RefusedRequestException extends RuntimeException {

    private final int status;
    private final String code;

    /** @param code tells the page what to do, for example {@code unauthenticated} */
    RefusedRequestException(int status, String code, String message) {
        super(message, null, false, false);
        this.status = status;
        this.code = code;
    }

    static RefusedRequestException invalid(String message) {
        return new RefusedRequestException(400, "invalid", message);
    }

    int status() {
        return status;
    }

    String code() {
        return code;
    }
}
