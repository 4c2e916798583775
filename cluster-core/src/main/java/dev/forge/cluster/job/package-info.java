/** Background jobs: the annotation, the client, options, status and the context of a running handler. */
@NullMarked
package dev.forge.cluster.job;

import org.jspecify.annotations.NullMarked;
