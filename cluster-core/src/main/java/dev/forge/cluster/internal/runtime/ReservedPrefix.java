// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

/**
 * A prefix of names that a capability of the cluster uses for itself.
 *
 * @param text the prefix
 * @param owner the owner of such names, such as "daemons"
 * @param advice what an application should do instead of using such a name
 */
public record ReservedPrefix(String text, String owner, String advice) {

    /** Returns whether a name begins with the prefix. */
    public boolean matches(String name) {
        return name.startsWith(text);
    }
}
