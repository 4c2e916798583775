// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.PayloadCodec;
import java.lang.reflect.Type;
import org.jspecify.annotations.Nullable;
import tools.jackson.databind.json.JsonMapper;

/** Writes and reads payloads with the application's Jackson mapper. */
public final class JacksonPayloadCodec implements PayloadCodec {

    private final JsonMapper mapper;

    public JacksonPayloadCodec(JsonMapper mapper) {
        this.mapper = mapper;
    }

    @Override
    public String write(@Nullable Object value) {
        return mapper.writeValueAsString(value);
    }

    @Override
    public @Nullable Object read(String json, Type type) {
        return mapper.readValue(json, mapper.constructType(type));
    }
}
