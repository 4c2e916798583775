// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.audit;

import org.jspecify.annotations.Nullable;

/**
 * The person or program that operates the cluster.
 *
 * @param name the principal, not blank; the trail keeps its first 497 characters
 * @param address the address of the client; null: unknown
 * @param source where the operation came from; not {@link AuditSource#SQL}, which only the database records
 */
public record Operator(String name, @Nullable String address, AuditSource source) {

    /** @throws IllegalArgumentException if the name is null or blank, or if the source is null or {@link AuditSource#SQL} */
    public Operator {
        if (name == null) {
            throw new IllegalArgumentException("Operator: name must not be null");
        }
        if (name.isBlank()) {
            throw new IllegalArgumentException("Operator: name ('%s') must not be blank".formatted(name));
        }
        if (source == null || source == AuditSource.SQL) {
            throw new IllegalArgumentException(
                    "Operator: source (%s) must be dashboard, endpoint, http or java".formatted(source));
        }
    }

    /** Returns an operator that calls the Java API, from an unknown address. */
    public static Operator named(String name) {
        return new Operator(name, null, AuditSource.JAVA);
    }
}
