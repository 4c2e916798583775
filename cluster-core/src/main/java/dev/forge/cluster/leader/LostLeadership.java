package dev.forge.cluster.leader;

import dev.forge.cluster.node.NodeMode;

/** What becomes of a node of mode {@link NodeMode#LEADER} that has lost the leadership and does not win it back. */
public enum LostLeadership {
    /** It is not ready (health OUT_OF_SERVICE) and warns, until it leads again. */
    NOT_READY,
    /** It warns and stands by, as a node of mode {@link NodeMode#AUTO} does. */
    STAND_BY,
    /** It closes the application and ends the process with exit code 1, so that a supervisor restarts it. */
    EXIT
}
