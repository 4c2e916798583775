// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.web;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.springframework.http.HttpStatus;

/** Handles single calls, batches and notifications of JSON-RPC 2.0. */
final class JsonRpc {

    static final int LARGEST_BATCH = 20;

    private final Map<String, Method> methods;

    /** A method: takes the params and returns the result, or throws. */
    @FunctionalInterface
    interface Method {
        Object call(@Nullable Object params, Submitter client);
    }

    /** The error codes: those of the specification and, from -32000 down, those of the cluster. */
    private enum Fault {
        PARSE_ERROR(-32700, "Parse error"),
        INVALID_REQUEST(-32600, "Invalid Request"),
        METHOD_NOT_FOUND(-32601, "Method not found"),
        INVALID_PARAMS(-32602, "Invalid params"),
        INTERNAL_ERROR(-32603, "Internal error"),
        UNAVAILABLE(-32000, "Unavailable"),
        UNKNOWN_JOB(-32001, "Unknown job");

        private final int code;
        private final String message;

        Fault(int code, String message) {
            this.code = code;
            this.message = message;
        }

        static Fault of(HttpStatus status) {
            return switch (status) {
                case BAD_REQUEST -> INVALID_PARAMS;
                case NOT_FOUND -> UNKNOWN_JOB;
                case SERVICE_UNAVAILABLE -> UNAVAILABLE;
                default -> INTERNAL_ERROR;
            };
        }
    }

    JsonRpc(Map<String, Method> methods) {
        this.methods = methods;
    }

    /** Returns the response to a body; null if there is none, as for notifications. */
    @Nullable
    Object answer(byte[] body, Submitter client) {
        Object request;
        try {
            request = JsonBody.parse(body);
        } catch (Refusal e) {
            return error(null, Fault.PARSE_ERROR, e.detail(), null);
        }
        if (!(request instanceof List<?> batch)) {
            return call(request, client);
        }
        if (batch.isEmpty() || batch.size() > LARGEST_BATCH) {
            return error(
                    null, Fault.INVALID_REQUEST, "a batch must contain 1 to %d calls".formatted(LARGEST_BATCH), null);
        }
        List<Object> answers = new ArrayList<>();
        for (Object each : batch) {
            Object answer = call(each, client);
            if (answer != null) {
                answers.add(answer);
            }
        }
        return answers.isEmpty() ? null : answers;
    }

    private @Nullable Object call(@Nullable Object request, Submitter client) {
        if (!(request instanceof Map<?, ?> call)) {
            return error(null, Fault.INVALID_REQUEST, "a call must be a JSON object", null);
        }
        Object id = call.get("id");
        if (id != null && !(id instanceof String) && !(id instanceof Number)) {
            return error(null, Fault.INVALID_REQUEST, "id must be a text, a number or null", null);
        }
        if (!"2.0".equals(call.get("jsonrpc"))) {
            return error(id, Fault.INVALID_REQUEST, "jsonrpc must be \"2.0\"", null);
        }
        if (!(call.get("method") instanceof String method)) {
            return error(id, Fault.INVALID_REQUEST, "method must be a text", null);
        }
        Object params = call.get("params");
        if (call.containsKey("params") && !(params instanceof Map) && !(params instanceof List)) {
            return error(id, Fault.INVALID_REQUEST, "params must be an object or an array", null);
        }
        Map<String, Object> answer = perform(id, method, params, client);
        return call.containsKey("id") ? answer : null;
    }

    private Map<String, Object> perform(@Nullable Object id, String method, @Nullable Object params, Submitter client) {
        Method code = methods.get(method);
        if (code == null) {
            return error(id, Fault.METHOD_NOT_FOUND, "known methods are " + methods.keySet(), null);
        }
        try {
            Map<String, Object> answer = envelope(id);
            answer.put("result", code.call(params, client));
            return answer;
        } catch (RuntimeException e) {
            Refusal refusal = Refusal.of(e);
            return error(id, Fault.of(refusal.status()), refusal.detail(), refusal.place());
        }
    }

    private static Map<String, Object> error(
            @Nullable Object id, Fault fault, String detail, @Nullable Map<String, Object> place) {
        var data = new LinkedHashMap<String, Object>();
        data.put("detail", detail);
        if (place != null) {
            data.put("task", place);
        }
        var error = new LinkedHashMap<String, Object>();
        error.put("code", fault.code);
        error.put("message", fault.message);
        error.put("data", data);
        Map<String, Object> answer = envelope(id);
        answer.put("error", error);
        return answer;
    }

    @SuppressWarnings("NullAway") // The id of a response may be null, and must be present then.
    private static Map<String, Object> envelope(@Nullable Object id) {
        var answer = new LinkedHashMap<String, Object>();
        answer.put("jsonrpc", "2.0");
        answer.put("id", id);
        return answer;
    }
}
