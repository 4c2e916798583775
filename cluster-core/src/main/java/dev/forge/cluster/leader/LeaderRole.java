// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.leader;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Placed on the class of a bean: this node stands for election to the role. The bean can listen for {@link LeadershipAcquired}
 * and {@link LeadershipLost}, or ask {@link Leadership}.
 */
@Documented
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.TYPE)
public @interface LeaderRole {

    /** The name of the role. Nodes stand for the cluster's own roles without this annotation. */
    String value();
}
