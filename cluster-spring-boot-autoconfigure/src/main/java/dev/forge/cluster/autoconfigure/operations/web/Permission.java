// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.web;

import java.util.Locale;

/** What a visitor may do. */
public enum Permission {
    /** Read names, numbers and states, and open the dashboard. */
    VIEW,
    /** See values of the application, such as payloads. */
    VALUES,
    /** Change states. */
    OPERATE;

    /** Returns the name in the API and in {@code forge.cluster.operations.authorities}. */
    String text() {
        return name().toLowerCase(Locale.ROOT);
    }
}
