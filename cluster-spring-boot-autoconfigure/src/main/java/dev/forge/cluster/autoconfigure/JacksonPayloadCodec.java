// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.PayloadCodec;
import java.lang.reflect.Type;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.jspecify.annotations.Nullable;
import tools.jackson.databind.ObjectReader;
import tools.jackson.databind.json.JsonMapper;

/** Writes and reads payloads with the application's Jackson mapper. */
public final class JacksonPayloadCodec implements PayloadCodec {

    private final JsonMapper mapper;

    /** Readers that have found their deserializer. Types come from the code of the application, so there are few. */
    private final ConcurrentMap<Type, ObjectReader> readers = new ConcurrentHashMap<>();

    public JacksonPayloadCodec(JsonMapper mapper) {
        this.mapper = mapper;
    }

    @Override
    public String write(@Nullable Object value) {
        return mapper.writeValueAsString(value);
    }

    @Override
    public @Nullable Object read(String json, Type type) {
        return readers.computeIfAbsent(type, key -> mapper.readerFor(mapper.constructType(key)))
                .readValue(json);
    }
}
