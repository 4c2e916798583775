/** Discovery of annotated methods and reading of their attributes. */
@NullMarked
package dev.forge.cluster.autoconfigure.handler;

import org.jspecify.annotations.NullMarked;
