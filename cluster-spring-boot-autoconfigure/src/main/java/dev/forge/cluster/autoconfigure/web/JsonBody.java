// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.web;

import dev.forge.cluster.internal.database.PrintedJson;
import jakarta.servlet.http.HttpServletRequest;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import org.jspecify.annotations.Nullable;
import org.springframework.http.HttpStatus;
import org.springframework.http.InvalidMediaTypeException;
import org.springframework.http.MediaType;
import tools.jackson.core.JacksonException;
import tools.jackson.core.StreamReadFeature;
import tools.jackson.core.TokenStreamLocation;
import tools.jackson.core.exc.StreamConstraintsException;
import tools.jackson.core.json.JsonFactory;
import tools.jackson.core.json.JsonWriteFeature;
import tools.jackson.databind.DeserializationFeature;
import tools.jackson.databind.json.JsonMapper;

/**
 * Reads the body of a request without the application's converters: never more than the limit is held in memory, whatever the headers
 * say. The limits of Jackson (nesting, digits of a number) apply, too.
 */
final class JsonBody {

    /** Not the application's mapper: the meaning of a request must not depend on its configuration. */
    private static final JsonMapper MAPPER = JsonMapper.builder(JsonFactory.builder()
                    // Parsers disagree about which of two equal members counts.
                    .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
                    // Unpaired surrogates are written as they were read.
                    .enable(JsonWriteFeature.ESCAPE_NON_ASCII)
                    .build())
            .enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
            .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
            .build();

    static final String TYPE = "Content-Type must be application/json, in UTF-8";

    private JsonBody() {}

    /**
     * Reads a body.
     *
     * @throws Refusal if it is not JSON by its headers, or too large
     */
    static byte[] read(HttpServletRequest request, int limit) {
        requireJson(request);
        if (request.getContentLengthLong() > limit) {
            throw tooLarge(limit);
        }
        byte[] body;
        try {
            body = request.getInputStream().readNBytes(limit + 1);
        } catch (IOException e) {
            throw Refusal.malformed("the body is incomplete, or its chunks are malformed");
        }
        if (body.length > limit) {
            throw tooLarge(limit);
        }
        return body;
    }

    private static Refusal tooLarge(int limit) {
        return new Refusal(
                HttpStatus.CONTENT_TOO_LARGE,
                "the body has more than %d bytes (forge.cluster.web.max-request-size)".formatted(limit));
    }

    private static void requireJson(HttpServletRequest request) {
        String encoding = request.getHeader("Content-Encoding");
        if (encoding != null && !encoding.equalsIgnoreCase("identity")) {
            throw new Refusal(HttpStatus.UNSUPPORTED_MEDIA_TYPE, "a body with Content-Encoding is not supported");
        }
        String type = request.getContentType();
        try {
            MediaType media = type == null ? null : MediaType.parseMediaType(type);
            if (media != null && MediaType.APPLICATION_JSON.equalsTypeAndSubtype(media)) {
                Charset charset = media.getCharset();
                if (charset == null || charset.equals(StandardCharsets.UTF_8)) {
                    return;
                }
            }
        } catch (InvalidMediaTypeException e) {
            // Treated like another type.
        }
        throw new Refusal(HttpStatus.UNSUPPORTED_MEDIA_TYPE, TYPE);
    }

    /**
     * Parses a body into maps, lists, texts, numbers and booleans.
     *
     * @throws Refusal if it is not JSON
     */
    static @Nullable Object parse(byte[] body) {
        String text;
        try {
            text = StandardCharsets.UTF_8
                    .newDecoder()
                    .decode(ByteBuffer.wrap(body))
                    .toString();
        } catch (CharacterCodingException e) {
            throw Refusal.malformed("the body is not UTF-8");
        }
        if (text.isBlank()) {
            throw Refusal.malformed("the body is empty");
        }
        try {
            return MAPPER.readValue(text, Object.class);
        } catch (ArithmeticException | NumberFormatException e) {
            // Jackson does not validate them.
            throw Refusal.malformed("the body contains a number that is too large");
        } catch (StreamConstraintsException e) {
            // The message of Jackson names a setting that is of no use to the client.
            requireShortNumbers(text);
            throw Refusal.malformed("the body is nested too deeply, or a name or text in it is too long");
        } catch (JacksonException e) {
            TokenStreamLocation place = e.getLocation();
            throw Refusal.malformed("the body is not JSON"
                    + (place == null ? "" : ": line %d, column %d".formatted(place.getLineNr(), place.getColumnNr())));
        }
    }

    private static void requireShortNumbers(String text) {
        try {
            PrintedJson.requireBytes(text);
        } catch (IllegalArgumentException e) {
            throw Refusal.malformed("the body " + e.getMessage());
        }
    }

    /** Writes a value as JSON. */
    static byte[] write(Object value) {
        return MAPPER.writeValueAsString(value).getBytes(StandardCharsets.UTF_8);
    }
}
