/** Job submission over HTTP and the role {@code gateway}. */
@NullMarked
package dev.forge.cluster.autoconfigure.web;

import org.jspecify.annotations.NullMarked;
