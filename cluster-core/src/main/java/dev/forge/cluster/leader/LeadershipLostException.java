package dev.forge.cluster.leader;

/** A fenced write was refused and rolled back: this node does not lead, or no longer in the term it began in. */
public class LeadershipLostException extends RuntimeException {

    public LeadershipLostException(String message) {
        super(message);
    }
}
