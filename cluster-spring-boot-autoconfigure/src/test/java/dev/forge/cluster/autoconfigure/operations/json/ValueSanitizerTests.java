// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.json;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.PayloadCodec;
import dev.forge.cluster.audit.AuditSource;
import dev.forge.cluster.autoconfigure.JacksonPayloadCodec;
import dev.forge.cluster.autoconfigure.operations.Caller;
import java.lang.reflect.Type;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.springframework.boot.actuate.endpoint.SanitizableData;
import org.springframework.boot.actuate.endpoint.SanitizingFunction;
import tools.jackson.databind.json.JsonMapper;

class ValueSanitizerTests {

    private static final PayloadCodec UNUSED = new PayloadCodec() {
        @Override
        public String write(Object value) {
            throw new UnsupportedOperationException();
        }

        @Override
        public Object read(String json, Type type) {
            throw new UnsupportedOperationException();
        }
    };

    private static ValueSanitizer.Sanitized shown() {
        return new ValueSanitizer(List.of(), UNUSED).shownTo(new Caller(true, null, null, AuditSource.ENDPOINT));
    }

    @Test
    void members_of_values_are_shown_with_their_names() {
        assertThat(shown().value("payload", Map.of("list", List.of(1, Map.of("a", "b")))))
                .isEqualTo(Map.of("list", List.of(1, Map.of("a", "b"))));
    }

    @Test
    void hidden_object_is_masked_as_a_whole() {
        var codec = new JacksonPayloadCodec(JsonMapper.builder().build());
        var hidden = new ValueSanitizer(List.of(), codec).shownTo(new Caller(false, null, null, AuditSource.ENDPOINT));
        for (String json : List.of("{\"alice@example.org\": 1}", "[{\"alice@example.org\": 1}]", "{}", "not JSON")) {
            assertThat(hidden.json("payload", json)).as(json).isEqualTo(SanitizableData.SANITIZED_VALUE);
        }
        assertThat(hidden.json("payload", "null")).isNull();
        assertThat(hidden.value("metadata", Map.of("alice@example.org", "vip")))
                .isEqualTo(SanitizableData.SANITIZED_VALUE);
    }

    @Test
    void response_shows_a_limited_number_of_members() {
        ValueSanitizer.Sanitized response = shown();
        List<Integer> most = Collections.nCopies(ValueSanitizer.MOST_MEMBERS, 0);
        assertThat(response.value("result", List.of(most))).isEqualTo(List.of(ValueSanitizer.TOO_LARGE));
        assertThat(response.value("input", Map.of("short", 1))).isEqualTo(Map.of("short", 1));
        assertThat(shown().value("result", most)).isEqualTo(most);
    }

    @Test
    void value_is_whole_unless_something_is_hidden() {
        PayloadCodec codec = new JacksonPayloadCodec(JsonMapper.builder().build());
        List<SanitizingFunction> masking = List.of(data -> data.getKey().endsWith("card") ? data.withValue("?") : data);
        var caller = new Caller(true, null, null, AuditSource.ENDPOINT);
        String harmless = "{\"order\": 9007199254740993, \"price\": 10.50}";
        String secret = "{\"order\": 1, \"card\": \"4711\"}";
        for (String json : List.of(harmless, secret)) {
            ValueSanitizer.Sanitized shown = new ValueSanitizer(masking, codec).shownTo(caller);
            assertThat(shown.isWhole(json, shown.json("payload", json)))
                    .as(json)
                    .isEqualTo(json.equals(harmless));
            ValueSanitizer.Sanitized hidden =
                    new ValueSanitizer(masking, codec).shownTo(new Caller(false, null, null, AuditSource.ENDPOINT));
            assertThat(hidden.isWhole(json, hidden.json("payload", json))).isFalse();
        }
    }

    @Test
    void members_below_very_long_names_are_hidden_instead_of_repeating_the_names() {
        String name = "a".repeat(50_000);
        Object value = Map.of(name, Collections.nCopies(250_000, 0), "short", 1);
        assertThat(shown().value("payload", value))
                .isEqualTo(Map.of(name, SanitizableData.SANITIZED_VALUE, "short", 1));
    }

    @Test
    void exported_value_is_not_parsed_if_there_are_no_functions() {
        // The codec fails if it is used.
        String json = "{\"a\": [1.50, 1e400]}";
        assertThat(shown().exactJson("input", json)).isEqualTo(new StoredJson(json));
        assertThat(shown().exactJson("input", "null")).isNull();
        assertThat(new ValueSanitizer(List.of(), UNUSED)
                        .shownTo(new Caller(false, null, null, AuditSource.ENDPOINT))
                        .exactJson("input", json))
                .isEqualTo(SanitizableData.SANITIZED_VALUE);
    }

    @Test
    void function_that_changes_a_value_in_place_changes_the_exported_value() {
        SanitizingFunction removing = data -> {
            if (data.getValue() instanceof Map<?, ?> map) {
                map.remove("card");
            }
            return data;
        };
        var shown = new ValueSanitizer(
                        List.of(removing),
                        new JacksonPayloadCodec(JsonMapper.builder().build()))
                .shownTo(new Caller(true, null, null, AuditSource.ENDPOINT));
        assertThat(shown.exactJson("input", "{\"card\": \"4711\", \"order\": 1}"))
                .isEqualTo(Map.of("order", 1));
    }
}
