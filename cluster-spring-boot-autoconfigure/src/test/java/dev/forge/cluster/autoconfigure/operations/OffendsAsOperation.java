// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import org.springframework.boot.actuate.endpoint.SecurityContext;

/** An operation that knows the users of one adapter. */
interface OffendsAsOperation {

    Object read(SecurityContext user);
}
