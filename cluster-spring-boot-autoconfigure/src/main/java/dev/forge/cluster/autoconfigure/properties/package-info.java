/**
 * The properties under {@code forge.cluster}, one record for each capability. {@link
 * dev.forge.cluster.autoconfigure.properties.ClusterProperties} contains all of them, so that an unknown key fails the start.
 */
@NullMarked
package dev.forge.cluster.autoconfigure.properties;

import org.jspecify.annotations.NullMarked;
