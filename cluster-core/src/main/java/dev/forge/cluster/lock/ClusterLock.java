package dev.forge.cluster.lock;

import java.time.Duration;

/** A lock that was taken. */
public interface ClusterLock extends AutoCloseable {

    /** What is locked. */
    String name();

    /** Larger than that of any earlier holder: lets a resource refuse those who are late. */
    long token();

    /** Holds the lock for that long from now. False: it has expired, and may be another's. */
    boolean extend(Duration lease);

    /** Gives the lock back, unless it has expired meanwhile and is another's. */
    @Override
    void close();
}
