package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.node.NodeRole;
import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.springframework.context.annotation.Conditional;

/** Matches on nodes that have one of those roles ({@code forge.cluster.node.roles}), where the cluster is enabled. */
@Documented
@Retention(RetentionPolicy.RUNTIME)
@Target({ElementType.TYPE, ElementType.METHOD})
@Conditional(OnClusterRole.class)
public @interface ConditionalOnClusterRole {

    /** Any of these. */
    NodeRole[] value();
}
