// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.workflow;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Makes a bean method a workflow: {@code R run(WorkflowContext wf, P input)}. Each step that the method performs through its
 * {@link WorkflowContext} is recorded. If the node dies, another node runs the method again, replays the recorded results, and
 * continues where the first node stopped.
 *
 * <pre>{@code
 * @ClusterWorkflow(name = "checkout", version = "1")
 * Receipt checkout(WorkflowContext wf, Order order) {
 *     Reservation reserved = wf.transactionalStep("reserve", Reservation.class, () -> stock.reserve(order));
 *     Charge charge = wf.step("charge", Charge.class, () -> bank.charge(order), step -> step.withCompensation(bank::refund));
 *     wf.awaitSignal("approve", Approval.class);
 *     return wf.step("ship", Receipt.class, () -> shipping.send(reserved));
 * }
 * }</pre>
 *
 * <p>Between its steps the method must be deterministic: no clock, no random values, no reading of data that can change. {@link
 * WorkflowContext#now} and {@link WorkflowContext#randomUuid} are recorded, too.
 *
 * <p>Runs keep the version with which they started. A method with changed steps is a new version; the old one stays, {@link
 * #deprecated}, until its runs have ended.
 */
@Documented
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
public @interface ClusterWorkflow {

    /** The name. Default: the method's name in kebab case. */
    String name() default "";

    /** The version. Numbers separated by dots are compared as numbers, so that 2 is older than 10; other texts are compared as text. */
    String version() default "1";

    /** Whether existing runs continue but no new ones start. */
    boolean deprecated() default false;
}
