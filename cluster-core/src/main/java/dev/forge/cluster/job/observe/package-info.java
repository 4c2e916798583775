/**
 * Attempts of jobs as a third party sees them: beans that wrap handlers or listen to attempts, and the Spring events. An
 * application that enqueues and handles jobs does not need this package.
 */
@NullMarked
package dev.forge.cluster.job.observe;

import org.jspecify.annotations.NullMarked;
