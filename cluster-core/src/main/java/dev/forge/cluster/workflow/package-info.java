/** Durable workflows: the annotation, the client, and the context that records and replays steps. */
@NullMarked
package dev.forge.cluster.workflow;

import org.jspecify.annotations.NullMarked;
