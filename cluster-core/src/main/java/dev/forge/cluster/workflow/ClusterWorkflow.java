package dev.forge.cluster.workflow;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Makes a bean method a workflow: {@code R run(WorkflowContext wf, P input)}. What it does through its {@link
 * WorkflowContext} is remembered step by step; whatever happens to its node, another one runs the method again, is given what
 * is remembered, and goes on where the first has stopped.
 *
 * <pre>{@code
 * @ClusterWorkflow(name = "checkout", version = "1")
 * Receipt checkout(WorkflowContext wf, Order order) {
 *     Reservation reserved = wf.transactionalStep("reserve", Reservation.class, () -> stock.reserve(order));
 *     Charge charge = wf.step("charge", Charge.class, () -> bank.charge(order), step -> step.compensate(bank::refund));
 *     wf.awaitSignal("approve", Approval.class);
 *     return wf.step("ship", Receipt.class, () -> shipping.send(reserved));
 * }
 * }</pre>
 *
 * <p>Between its steps the method must do the same each time: no clock, no chance, no reading of what may change. {@link
 * WorkflowContext#now} and {@link WorkflowContext#randomUuid} are remembered too.
 *
 * <p>Runs stay with the version they began with. A method whose steps have changed is a new version; the old one stays,
 * {@link #deprecated}, until its runs have ended.
 */
@Documented
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
public @interface ClusterWorkflow {

    /** By default the method's name in kebab case. */
    String name() default "";

    /** Numbers with dots between them are compared as such, anything else as text: 2 is older than 10. */
    String version() default "1";

    /** Whether its runs may end here, but no new ones begin. */
    boolean deprecated() default false;
}
