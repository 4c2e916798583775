/** Wiring: properties, auto-configuration and lifecycle for Spring Boot. */
@NullMarked
package dev.forge.cluster.autoconfigure;

import org.jspecify.annotations.NullMarked;
