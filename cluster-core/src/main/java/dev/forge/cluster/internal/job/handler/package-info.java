/**
 * Handlers of jobs as the application declares them, and those who observe or own jobs. Knows neither threads nor claims.
 */
@NullMarked
package dev.forge.cluster.internal.job.handler;

import org.jspecify.annotations.NullMarked;
