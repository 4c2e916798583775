// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.ratelimit;

import java.util.function.Consumer;

/** Is told the name of a limit whenever it denies a call. */
interface RateLimitMonitor extends Consumer<String> {}
