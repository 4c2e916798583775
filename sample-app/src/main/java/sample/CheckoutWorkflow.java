// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package sample;

import dev.forge.cluster.job.NonRetryableJobException;
import dev.forge.cluster.workflow.ClusterWorkflow;
import dev.forge.cluster.workflow.WorkflowContext;
import java.time.Duration;
import java.util.UUID;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.stereotype.Component;

/**
 * Reserves, charges, waits for approval and ships. Each step takes effect once, even if nodes fail. If a checkout fails or is
 * cancelled, its completed steps are compensated.
 */
@Component
class CheckoutWorkflow {

    private final JdbcClient jdbc;

    CheckoutWorkflow(JdbcClient jdbc) {
        this.jdbc = jdbc;
    }

    /** The result of a checkout. */
    record Shipment(String reservation, String charge, String approvedBy) {}

    @ClusterWorkflow(name = "checkout", version = "1")
    Shipment checkout(WorkflowContext wf, Checkout checkout) {
        String reservation = wf.transactionalStep(
                "reserve",
                String.class,
                () -> write(wf.id(), "reserved", checkout.item()),
                step -> step.withCompensation(it -> write(wf.id(), "released", checkout.item())));
        String charge = wf.transactionalStep(
                "charge",
                String.class,
                () -> write(wf.id(), "charged", checkout.amount().toPlainString()),
                step -> step.withCompensation(
                        it -> write(wf.id(), "refunded", checkout.amount().toPlainString())));
        String approvedBy = wf.awaitSignal("approve", String.class, Duration.ofDays(1))
                .orElseThrow(() -> new NonRetryableJobException("not approved in time"));
        wf.transactionalStep("ship", String.class, () -> write(wf.id(), "shipped", checkout.item()));
        return new Shipment(reservation, charge, approvedBy);
    }

    private String write(UUID run, String entry, String what) {
        jdbc.sql("INSERT INTO checkout_entries (run_id, entry, what) VALUES (?, ?, ?)")
                .params(run, entry, what)
                .update();
        return entry + " " + what;
    }
}
