/** Leader election: named roles, terms, fenced writes and the events of a change of leadership. */
@NullMarked
package dev.forge.cluster.leader;

import org.jspecify.annotations.NullMarked;
