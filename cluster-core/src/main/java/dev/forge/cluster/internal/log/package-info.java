/** Loggers for all slices. A logging library that throws neither ends a thread nor skips work. */
@NullMarked
package dev.forge.cluster.internal.log;

import org.jspecify.annotations.NullMarked;
