// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.audit;

/** Where an operation came from. */
public enum AuditSource {
    /** A dashboard for operators. */
    DASHBOARD,
    /** The Actuator endpoint. */
    ENDPOINT,
    /** The HTTP API for jobs, or that for operators. */
    HTTP,
    /** A call of the Java API by the application. */
    JAVA,
    /** A statement in a database session, recorded by a trigger. */
    SQL
}
