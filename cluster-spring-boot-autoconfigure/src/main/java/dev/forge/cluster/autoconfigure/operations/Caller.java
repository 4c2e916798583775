// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import org.jspecify.annotations.Nullable;

/**
 * The user on whose behalf an adapter calls. The adapter has authenticated the user, and has checked that the user may make the call.
 *
 * @param seesValues whether the user may see values of the application, such as payloads; they are masked otherwise
 * @param principal the name of the user; null: anonymous
 * @param address the network address of the user; null: unknown to the adapter
 */
public record Caller(
        boolean seesValues,
        @Nullable String principal,
        @Nullable String address) {}
