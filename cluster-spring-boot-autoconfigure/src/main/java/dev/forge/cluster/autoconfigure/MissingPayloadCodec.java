package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.PayloadCodec;
import java.lang.reflect.Type;
import org.jspecify.annotations.Nullable;

/** Stands in where nothing can write JSON. Jobs without payload and result still run. */
public final class MissingPayloadCodec implements PayloadCodec {

    private static final String MISSING =
            "nothing here writes JSON: add spring-boot-starter-jackson, or define a PayloadCodec bean";

    @Override
    public String write(@Nullable Object value) {
        throw new IllegalStateException(MISSING);
    }

    @Override
    public @Nullable Object read(String json, Type type) {
        throw new IllegalStateException(MISSING);
    }
}
