// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import dev.forge.cluster.workflow.ClusterWorkflow;
import dev.forge.cluster.workflow.Step;
import dev.forge.cluster.workflow.WorkflowContext;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.springframework.stereotype.Component;

/** A workflow with steps, compensations, a sleep and a signal. */
@Component
class Checkout {

    final List<String> calls = new CopyOnWriteArrayList<>();

    record Order(String customer) {}

    @ClusterWorkflow(name = "checkout", version = "1")
    String run(WorkflowContext context, Order order) {
        context.step(Step.of("reserve", String.class, () -> called("reserve"))
                .withCompensation(reserved -> called("release")));
        context.step(
                Step.of("charge", String.class, () -> called("charge")).withCompensation(charged -> called("refund")));
        context.sleep("cooling-off", Duration.ofDays(3));
        boolean confirmed = context.awaitSignal("confirmed", Duration.ofHours(1));
        if (!confirmed) {
            throw new IllegalStateException("not confirmed");
        }
        context.step(Step.of("ship", String.class, () -> called("ship")));
        return "shipped to " + order.customer;
    }

    private String called(String what) {
        calls.add(what);
        return what;
    }
}
