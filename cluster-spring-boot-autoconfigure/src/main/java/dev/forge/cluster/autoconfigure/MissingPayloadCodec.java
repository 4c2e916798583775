// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.PayloadCodec;
import java.lang.reflect.Type;
import org.jspecify.annotations.Nullable;

/** Rejects payloads and results if no JSON library is present. Jobs without payload and result still run. */
public final class MissingPayloadCodec implements PayloadCodec {

    private static final String MISSING =
            "no JSON library is present: add spring-boot-starter-jackson, or define a PayloadCodec bean";

    @Override
    public String write(@Nullable Object value) {
        throw new IllegalStateException(MISSING);
    }

    @Override
    public @Nullable Object read(String json, Type type) {
        throw new IllegalStateException(MISSING);
    }
}
