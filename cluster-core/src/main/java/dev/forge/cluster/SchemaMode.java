// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster;

/** What start-up does when the cluster's schema is missing or outdated. */
public enum SchemaMode {
    /** Installs or upgrades the schema. */
    MIGRATE,
    /** Refuses to start. Needs neither Flyway nor the right to create objects. */
    VALIDATE,
    /** Does not check the schema. */
    NONE
}
