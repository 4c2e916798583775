package dev.forge.cluster;

import java.lang.reflect.Type;
import org.jspecify.annotations.Nullable;

/** Turns payloads, results and checkpoints into JSON and back. A bean of this type replaces the default, Jackson. */
public interface PayloadCodec {

    /** The value as JSON. Whatever is thrown tells the caller that it cannot be written. */
    String write(@Nullable Object value);

    /** Reads JSON into exactly that type; the database holds no names of classes. */
    @Nullable
    Object read(String json, Type type);
}
