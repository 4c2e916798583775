package sample;

import java.net.URI;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.UUID;
import org.springframework.http.ResponseEntity;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.RestController;

@RestController
@RequestMapping("/orders")
class OrderController {

    private final JdbcClient jdbc;

    OrderController(JdbcClient jdbc) {
        this.jdbc = jdbc;
    }

    record NewOrder(String item, int quantity) {}

    record Order(UUID id, String item, int quantity, String status, OffsetDateTime createdAt) {}

    @PostMapping
    ResponseEntity<Order> create(@RequestBody NewOrder order) {
        Order created = jdbc.sql("""
                        INSERT INTO orders (id, item, quantity) VALUES (gen_random_uuid(), :item, :quantity)
                        RETURNING id, item, quantity, status, created_at
                        """)
                .param("item", order.item())
                .param("quantity", order.quantity())
                .query(Order.class)
                .single();
        return ResponseEntity.created(URI.create("/orders/" + created.id())).body(created);
    }

    @GetMapping
    List<Order> newest() {
        return jdbc.sql("SELECT id, item, quantity, status, created_at FROM orders ORDER BY created_at DESC LIMIT 20")
                .query(Order.class)
                .list();
    }

    @GetMapping("/{id}")
    ResponseEntity<Order> one(@PathVariable UUID id) {
        return ResponseEntity.of(jdbc.sql("SELECT id, item, quantity, status, created_at FROM orders WHERE id = :id")
                .param("id", id)
                .query(Order.class)
                .optional());
    }
}
