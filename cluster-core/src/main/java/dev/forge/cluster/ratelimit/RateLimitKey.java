// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.ratelimit;

/** Which callers of a {@link RateLimited} method share a bucket. */
public enum RateLimitKey {

    /** One bucket for all callers in the whole cluster. */
    GLOBAL,

    /** One bucket per authenticated user; callers that are not authenticated have one per IP address. */
    USER,

    /** One bucket per IP address; for IPv6 one per /64 network, since a client usually owns a whole one. */
    IP
}
