package dev.forge.cluster.leader;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * On a bean's class: this node stands for election to that role. The bean learns of it by listening for {@link
 * LeadershipAcquired} and {@link LeadershipLost}, or asks {@link Leadership}.
 */
@Documented
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.TYPE)
public @interface LeaderRole {

    /** The role's name; the cluster's own ones are taken care of. */
    String value();
}
