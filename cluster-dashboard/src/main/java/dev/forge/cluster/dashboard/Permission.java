// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import java.util.Locale;

/** What a visitor of the dashboard may do. */
enum Permission {
    /** Open the dashboard. */
    VIEW,
    /** See values of the application, such as payloads. */
    VALUES,
    /** Change states. */
    OPERATE;

    /** Returns the name in the API and in {@code forge.cluster.dashboard.authorities}. */
    String text() {
        return name().toLowerCase(Locale.ROOT);
    }
}
