// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package sample;

import dev.forge.cluster.job.Jobs;
import java.net.URI;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.UUID;
import org.springframework.http.ResponseEntity;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.RestController;

@RestController
@RequestMapping("/orders")
class OrderController {

    private static final String SELECT = """
            SELECT o.id, o.item, o.quantity, o.status, l.node, l.attempt, o.created_at
            FROM orders o LEFT JOIN ledger l ON l.order_id = o.id
            """;

    private final JdbcClient jdbc;
    private final Jobs jobs;

    OrderController(JdbcClient jdbc, Jobs jobs) {
        this.jdbc = jdbc;
        this.jobs = jobs;
    }

    record NewOrder(String item, int quantity, Long workMillis, Integer failTimes) {}

    record Accepted(UUID orderId, UUID jobId) {}

    record Order(
            UUID id,
            String item,
            int quantity,
            String status,
            String node,
            Integer attempt,
            OffsetDateTime createdAt) {}

    /** Stores the order and enqueues its job in one transaction. */
    @PostMapping
    @Transactional
    ResponseEntity<Accepted> create(@RequestBody NewOrder order) {
        Input.requireText("item", order.item());
        Input.require(order.quantity() > 0, "quantity must be greater than 0");
        UUID id = UUID.randomUUID();
        jdbc.sql("INSERT INTO orders (id, item, quantity) VALUES (?, ?, ?)")
                .params(id, order.item(), order.quantity())
                .update();
        UUID job = jobs.enqueue(new ProcessOrder(id, order.workMillis(), order.failTimes()))
                .id();
        return ResponseEntity.accepted().location(URI.create("/orders/" + id)).body(new Accepted(id, job));
    }

    @GetMapping
    List<Order> newest() {
        return jdbc.sql(SELECT + "ORDER BY o.created_at DESC LIMIT 20")
                .query(Order.class)
                .list();
    }

    @GetMapping("/{id}")
    ResponseEntity<Order> one(@PathVariable UUID id) {
        return ResponseEntity.of(
                jdbc.sql(SELECT + "WHERE o.id = ?").param(id).query(Order.class).optional());
    }
}
