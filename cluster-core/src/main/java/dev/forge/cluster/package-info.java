/**
 * Types that all capabilities share: the data source marker, the exceptions that any call can throw, the payload codec and
 * the backoff strategy.
 *
 * <p>Each capability has a package of its own below this one ({@code job}, {@code cron}, {@code daemon}, {@code workflow},
 * {@code leader}, {@code lock}, {@code state}, {@code startup}, {@code ratelimit}, {@code node}). These packages are the
 * public API. Everything under {@code internal} may change at any time.
 */
@NullMarked
package dev.forge.cluster;

import org.jspecify.annotations.NullMarked;
