/** Identity, roles and life cycle events of the nodes of a cluster. */
@NullMarked
package dev.forge.cluster.node;

import org.jspecify.annotations.NullMarked;
