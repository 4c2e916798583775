/**
 * Words: what an application imports. Annotations, the interfaces it calls, the ones it may implement, and the values
 * that travel between them. Everything else lives under {@code internal} and may change at any time.
 */
@NullMarked
package dev.forge.cluster;

import org.jspecify.annotations.NullMarked;
