/** Actions that run once per cluster when the application starts. */
@NullMarked
package dev.forge.cluster.startup;

import org.jspecify.annotations.NullMarked;
