/** What needs the attention of an operator, collected from the reports of all capabilities. */
@NullMarked
package dev.forge.cluster.autoconfigure.attention;

import org.jspecify.annotations.NullMarked;
