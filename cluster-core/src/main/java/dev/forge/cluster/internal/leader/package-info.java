/**
 * Leader election with fencing. The row of a role in {@code forge_leaders} is its fence: a term begins in a transaction that
 * holds the row exclusively, and a fenced transaction shares it until its commit.
 */
@NullMarked
package dev.forge.cluster.internal.leader;

import org.jspecify.annotations.NullMarked;
