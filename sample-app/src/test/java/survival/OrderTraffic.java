// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package survival;

import dev.forge.cluster.test.process.AppProcess;
import java.io.IOException;
import java.net.ConnectException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.List;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Simulates clients behind a load balancer: sends orders at a steady rate to nodes that are ready. If a node refuses the
 * connection, the next node gets the request. Other failures are not retried, so no request is sent twice.
 */
final class OrderTraffic implements AutoCloseable {

    private static final Pattern ORDER = Pattern.compile("\"orderId\":\"([^\"]+)\"");
    private static final Duration LOOK = Duration.ofMillis(50);

    private final HttpClient http =
            HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(5)).build();
    private final List<AppProcess> nodes = new CopyOnWriteArrayList<>();
    private final Set<AppProcess> ready = ConcurrentHashMap.newKeySet();
    private final ScheduledExecutorService threads = Executors.newScheduledThreadPool(8);
    private final AtomicInteger turn = new AtomicInteger();
    final Set<String> acknowledged = ConcurrentHashMap.newKeySet();
    final Queue<String> failures = new ConcurrentLinkedQueue<>();

    OrderTraffic(List<AppProcess> nodes, int perSecond) {
        this.nodes.addAll(nodes);
        look();
        var unused = threads.scheduleWithFixedDelay(this::look, 0, LOOK.toMillis(), TimeUnit.MILLISECONDS);
        for (int client = 0; client < 4; client++) {
            unused = threads.scheduleAtFixedRate(this::order, 0, 4_000_000L / perSecond, TimeUnit.MICROSECONDS);
        }
    }

    void add(AppProcess node) {
        nodes.add(node);
    }

    void remove(AppProcess node) {
        nodes.remove(node);
    }

    private void look() {
        for (AppProcess node : nodes) {
            try {
                if (node.get("/actuator/health/readiness").statusCode() == 200) {
                    ready.add(node);
                    continue;
                }
            } catch (RuntimeException e) {
                // The node is not running.
            }
            ready.remove(node);
        }
        ready.retainAll(nodes);
    }

    private void order() {
        try {
            List<AppProcess> candidates = List.copyOf(ready);
            for (int i = 0; i < candidates.size(); i++) {
                AppProcess node = candidates.get(Math.floorMod(turn.getAndIncrement(), candidates.size()));
                try {
                    HttpResponse<String> response = http.send(
                            HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + node.port() + "/orders"))
                                    .timeout(Duration.ofSeconds(20))
                                    .header("Content-Type", "application/json")
                                    .POST(BodyPublishers.ofString("{\"item\": \"anvil\", \"quantity\": 1}"))
                                    .build(),
                            BodyHandlers.ofString());
                    Matcher id = ORDER.matcher(response.body());
                    if (response.statusCode() == 202 && id.find()) {
                        acknowledged.add(id.group(1));
                    } else {
                        failures.add(response.statusCode() + " " + response.body());
                    }
                    return;
                } catch (ConnectException e) {
                    ready.remove(node);
                }
            }
        } catch (IOException e) {
            failures.add(e.toString());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public void close() {
        threads.shutdown();
        try {
            threads.awaitTermination(30, TimeUnit.SECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
