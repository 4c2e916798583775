// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster;

import java.lang.reflect.Type;
import org.jspecify.annotations.Nullable;

/** Converts payloads, results and checkpoints to JSON and back. A bean of this type replaces the default, which uses Jackson. */
public interface PayloadCodec {

    /** Returns the value as JSON. An exception of any type means that the value cannot be written. */
    String write(@Nullable Object value);

    /** Reads JSON as exactly that type. The database holds no class names. */
    @Nullable
    Object read(String json, Type type);
}
