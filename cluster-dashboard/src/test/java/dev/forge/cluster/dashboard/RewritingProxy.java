// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.List;

/** A reverse proxy that serves the paths of an application under a prefix of its own. */
final class RewritingProxy implements AutoCloseable {

    private final HttpServer server;
    private final HttpClient client = HttpClient.newHttpClient();
    private final String prefix;
    private final URI target;

    RewritingProxy(String prefix, URI target) throws IOException {
        this.prefix = prefix;
        this.target = target;
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext(prefix, this::forward);
        server.start();
    }

    String address() {
        return "http://localhost:%d%s".formatted(server.getAddress().getPort(), prefix);
    }

    private void forward(HttpExchange exchange) throws IOException {
        String rest = exchange.getRequestURI().toString().substring(prefix.length());
        var request = HttpRequest.newBuilder(URI.create(target + rest)).GET();
        List<String> cookies = exchange.getRequestHeaders().getOrDefault("Cookie", List.of());
        cookies.forEach(cookie -> request.header("Cookie", cookie));
        try (exchange) {
            HttpResponse<byte[]> response = client.send(request.build(), BodyHandlers.ofByteArray());
            for (String name : List.of("Content-Type", "Location", "Content-Security-Policy", "Cache-Control")) {
                response.headers()
                        .firstValue(name)
                        .ifPresent(value -> exchange.getResponseHeaders().set(name, value));
            }
            byte[] body = response.body();
            exchange.sendResponseHeaders(response.statusCode(), body.length == 0 ? -1 : body.length);
            exchange.getResponseBody().write(body);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IOException(e);
        }
    }

    @Override
    public void close() {
        server.stop(0);
    }
}
