// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
/**
 * Values of the Java API as JSON: one serializer, whose table of types says under which name each component is written, and which are
 * values of the application that a caller may not see.
 */
@NullMarked
package dev.forge.cluster.autoconfigure.operations.json;

import org.jspecify.annotations.NullMarked;
