/** What a node sees of the others: their rows and locks, and what it decides from them. */
@NullMarked
package dev.forge.cluster.internal.node.observation;

import org.jspecify.annotations.NullMarked;
