/** Wake-ups through PostgreSQL, Redis or JMS. */
@NullMarked
package dev.forge.cluster.autoconfigure.wakeup;

import org.jspecify.annotations.NullMarked;
