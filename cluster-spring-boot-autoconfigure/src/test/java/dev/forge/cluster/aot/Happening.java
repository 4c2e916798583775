// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.aot;

import jakarta.persistence.Entity;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.Id;
import org.jspecify.annotations.Nullable;

/** The effect of a handler, stored as one row. */
@Entity
class Happening {

    @Id
    @GeneratedValue
    @Nullable
    Long id;

    String name = "";

    protected Happening() {}

    Happening(String name) {
        this.name = name;
    }
}
