// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import java.time.Duration;
import java.util.UUID;

/**
 * A handler or a step that continues to run although it was interrupted.
 *
 * @param job the name of its job
 * @param label the handler, with its attempt or its step
 * @param cause why it was interrupted
 * @param forTime how long it has ignored the interrupt
 */
public record StuckHandler(String job, UUID id, String label, String cause, Duration forTime) {}
