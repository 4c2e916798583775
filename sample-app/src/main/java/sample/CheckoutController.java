// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package sample;

import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.Workflows;
import java.math.BigDecimal;
import java.net.URI;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.UUID;
import org.springframework.http.ResponseEntity;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.web.bind.annotation.DeleteMapping;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.RestController;

@RestController
@RequestMapping("/checkouts")
class CheckoutController {

    private static final int MOST_DIGITS = 10;

    private final Workflows workflows;
    private final JdbcClient jdbc;

    CheckoutController(Workflows workflows, JdbcClient jdbc) {
        this.workflows = workflows;
        this.jdbc = jdbc;
    }

    record Started(UUID runId) {}

    /** The state of a checkout and the entries it has written. */
    record State(UUID runId, String status, String awaits, List<String> steps, List<String> entries) {}

    @PostMapping
    ResponseEntity<Started> start(@RequestBody Checkout checkout) {
        Input.requireText("item", checkout.item());
        Input.require(isPayable(checkout.amount()), "amount must be greater than 0 and have at most 10 digits");
        UUID run = workflows.start("checkout", checkout);
        return ResponseEntity.accepted()
                .location(URI.create("/checkouts/" + run))
                .body(new Started(run));
    }

    private static boolean isPayable(BigDecimal amount) {
        return amount != null
                && amount.signum() > 0
                && amount.precision() <= MOST_DIGITS
                && Math.abs(amount.scale()) <= MOST_DIGITS;
    }

    @PostMapping("/{run}/approve")
    ResponseEntity<Void> approve(@PathVariable UUID run, @RequestBody(required = false) Map<String, String> by) {
        String who = by == null ? "unknown" : by.getOrDefault("by", "unknown");
        Input.requireText("by", who);
        return workflows.signal(run, "approve", who)
                ? ResponseEntity.accepted().build()
                : ResponseEntity.notFound().build();
    }

    /** Cancels a checkout: its completed steps are compensated. */
    @DeleteMapping("/{run}")
    ResponseEntity<Void> cancel(@PathVariable UUID run) {
        return workflows.cancel(run, "cancelled by the customer")
                ? ResponseEntity.accepted().build()
                : ResponseEntity.notFound().build();
    }

    @GetMapping("/{run}")
    ResponseEntity<State> one(@PathVariable UUID run) {
        return ResponseEntity.of(workflows.find(run).map(this::state));
    }

    private static String word(Enum<?> status) {
        return status.name().toLowerCase(Locale.ROOT);
    }

    private State state(WorkflowInfo info) {
        return new State(
                info.id(),
                word(info.status()),
                info.awaits(),
                info.steps().stream()
                        .map(step -> step.name() + " " + word(step.status()))
                        .toList(),
                jdbc.sql("SELECT entry FROM checkout_entries WHERE run_id = ? ORDER BY id")
                        .param(info.id())
                        .query(String.class)
                        .list());
    }
}
