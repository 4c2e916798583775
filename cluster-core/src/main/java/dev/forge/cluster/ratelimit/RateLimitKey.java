package dev.forge.cluster.ratelimit;

/** For whom there is a bucket of a {@link RateLimited} method. */
public enum RateLimitKey {

    /** One for everybody, in the whole cluster. */
    GLOBAL,

    /** One for each authenticated user; those who are not, by address. */
    USER,

    /**
     * One for each address that requests come from; of IPv6, for each network of 64 bits, since a client usually has all
     * of one.
     */
    IP
}
