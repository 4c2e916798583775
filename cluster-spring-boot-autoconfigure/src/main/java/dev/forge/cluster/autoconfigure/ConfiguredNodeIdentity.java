// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.autoconfigure.properties.node.NodeProperties;
import dev.forge.cluster.node.NodeIdentity;
import dev.forge.cluster.node.NodeIdentityProvider;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.UUID;

/** The identity from the properties; the name defaults to the host name. */
final class ConfiguredNodeIdentity implements NodeIdentityProvider {

    private final NodeIdentity identity;

    ConfiguredNodeIdentity(NodeProperties settings) {
        String name = settings.name() != null ? settings.name() : hostname();
        String unique = name + "-" + UUID.randomUUID().toString().substring(0, 8);
        this.identity = new NodeIdentity(settings.id() != null ? settings.id() : unique, name);
    }

    @Override
    public NodeIdentity identity() {
        return identity;
    }

    /** Returns HOSTNAME, which in a container is the name the orchestrator uses; a look-up may fail or return another name. */
    static String hostname() {
        String container = System.getenv("HOSTNAME");
        if (container != null && !container.isBlank()) {
            return container;
        }
        try {
            return InetAddress.getLocalHost().getHostName();
        } catch (UnknownHostException e) {
            return "localhost";
        }
    }
}
