/** The Actuator endpoint and the health contributor. */
@NullMarked
package dev.forge.cluster.autoconfigure.actuate;

import org.jspecify.annotations.NullMarked;
