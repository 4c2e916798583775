// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
/** The resources that operators read and change, such as jobs and nodes. */
@NullMarked
package dev.forge.cluster.autoconfigure.operations.resource;

import org.jspecify.annotations.NullMarked;
