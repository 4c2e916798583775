// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.internal.job.handler.Claim;

/** Sees each attempt of a step, so that a test can let it fail, or the node die, at exactly that place. */
public interface StepProbe {

    /** The probe of nodes that no test observes. */
    StepProbe NONE = new StepProbe() {};

    /** Called before the code of a step, or of its compensation, runs; an exception is the attempt's own. */
    default void before(Claim run, String step, boolean compensation) throws Exception {}

    /** Called when the attempt has completed and is recorded. */
    default void after(Claim run, String step, boolean compensation) {}
}
