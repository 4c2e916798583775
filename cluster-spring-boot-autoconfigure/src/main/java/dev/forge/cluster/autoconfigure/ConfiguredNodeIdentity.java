package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.autoconfigure.properties.NodeProperties;
import dev.forge.cluster.node.NodeIdentity;
import dev.forge.cluster.node.NodeIdentityProvider;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.UUID;

/** What the properties say, and the host's name where they say nothing. */
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

    /** In a container HOSTNAME is the name its orchestrator knows; a look-up may fail or answer something else. */
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
