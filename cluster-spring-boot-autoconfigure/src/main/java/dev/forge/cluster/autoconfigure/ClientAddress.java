// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.autoconfigure.properties.value.AddressRange;
import jakarta.servlet.http.HttpServletRequest;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Determines the client address of a request. Any client may send {@code X-Forwarded-For}, so its entries are read from right to left
 * as long as the sender of each entry is a trusted proxy.
 */
public final class ClientAddress {

    private static final int NETWORK = 8;

    private final List<AddressRange> trusted;

    public ClientAddress(List<AddressRange> trusted) {
        this.trusted = trusted;
    }

    /** Returns the address of the client; for IPv6 its network, because a client usually owns a whole network. */
    public String of(HttpServletRequest request) {
        byte[] address = bytes(request);
        // A socket without addresses, or a text that the client chose: all such requests count as one client.
        return address == null ? "unknown" : text(address);
    }

    /** Returns the whole address of the client; null if it is unknown. */
    public @Nullable String exact(HttpServletRequest request) {
        byte[] address = bytes(request);
        return address == null ? null : host(address);
    }

    private byte @Nullable [] bytes(HttpServletRequest request) {
        byte[] address = AddressRange.bytes(request.getRemoteAddr());
        if (address == null) {
            return null;
        }
        List<String> forwarded = forwarded(request);
        for (int i = forwarded.size() - 1; i >= 0 && isTrusted(address); i--) {
            byte[] before = AddressRange.bytes(withoutPort(forwarded.get(i).trim()));
            if (before == null) {
                break;
            }
            address = before;
        }
        return address;
    }

    private static List<String> forwarded(HttpServletRequest request) {
        var entries = new ArrayList<String>();
        for (String line : Collections.list(request.getHeaders("X-Forwarded-For"))) {
            entries.addAll(Arrays.asList(line.split(",", -1)));
        }
        return entries;
    }

    private boolean isTrusted(byte[] address) {
        return trusted.stream().anyMatch(range -> range.contains(address));
    }

    private static String withoutPort(String text) {
        int end = text.indexOf(']');
        if (text.startsWith("[") && end > 0) {
            return text.substring(1, end);
        }
        int colon = text.indexOf(':');
        return colon >= 0 && colon == text.lastIndexOf(':') ? text.substring(0, colon) : text;
    }

    private static String text(byte[] address) {
        byte[] shown = address.clone();
        if (shown.length > 4) {
            Arrays.fill(shown, NETWORK, shown.length, (byte) 0);
        }
        return host(shown) + (shown.length > 4 ? "/64" : "");
    }

    private static String host(byte[] address) {
        try {
            return InetAddress.getByAddress(address).getHostAddress();
        } catch (UnknownHostException e) {
            throw new IllegalStateException(e);
        }
    }
}
