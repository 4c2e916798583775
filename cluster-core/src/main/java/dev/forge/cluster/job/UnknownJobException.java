// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job;

/** Thrown when no handler exists for the name of a job. The message lists known names. */
public class UnknownJobException extends JobRejectedException {

    private static final long serialVersionUID = 1L;

    public UnknownJobException(String message) {
        super(message);
    }
}
