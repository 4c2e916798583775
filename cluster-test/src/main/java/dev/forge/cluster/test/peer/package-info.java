/**
 * The other node, played by the test: {@link dev.forge.cluster.test.peer.JobQueue} claims and completes jobs, {@link
 * dev.forge.cluster.test.peer.LeaderElection} wins and releases leader roles. Neither runs a node.
 */
@NullMarked
package dev.forge.cluster.test.peer;

import org.jspecify.annotations.NullMarked;
