// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.properties.value;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** An IP address or a network such as {@code 10.0.0.0/8}. */
public final class AddressRange {

    private static final Pattern V4 =
            Pattern.compile("(25[0-5]|2[0-4]\\d|1?\\d?\\d)(\\.(25[0-5]|2[0-4]\\d|1?\\d?\\d)){3}");
    private static final Pattern V6 = Pattern.compile("[0-9a-fA-F:][0-9a-fA-F:.]*");

    private final byte[] network;
    private final int bits;

    private AddressRange(byte[] network, int bits) {
        this.network = network;
        this.bits = bits;
    }

    /**
     * Parses an address or a network.
     *
     * @throws IllegalArgumentException if the text is neither
     */
    public static AddressRange of(String text) {
        int slash = text.indexOf('/');
        byte[] network = bytes(slash < 0 ? text : text.substring(0, slash));
        if (network == null) {
            throw new IllegalArgumentException("is neither an address nor a network such as 10.0.0.0/8");
        }
        int most = network.length * 8;
        int bits = slash < 0 ? most : parse(text.substring(slash + 1));
        if (bits < 0 || bits > most) {
            throw new IllegalArgumentException("has no prefix between 0 and " + most);
        }
        return new AddressRange(network, bits);
    }

    private static int parse(String text) {
        try {
            return Integer.parseInt(text);
        } catch (NumberFormatException e) {
            return -1;
        }
    }

    /** Returns whether an address belongs to this range; false for an address of the other IP version. */
    public boolean contains(byte[] address) {
        if (address.length != network.length) {
            return false;
        }
        for (int bit = 0; bit < bits; bit += 8) {
            int mask = bits - bit >= 8 ? 0xff : 0xff << (8 - (bits - bit));
            if (((address[bit / 8] ^ network[bit / 8]) & mask) != 0) {
                return false;
            }
        }
        return true;
    }

    /** Parses a numeric address; returns null for any other text, and never looks up a host name. */
    public static byte @Nullable [] bytes(String text) {
        int zone = text.indexOf('%');
        String address = zone < 0 ? text : text.substring(0, zone);
        if (!V4.matcher(address).matches()
                && !(address.indexOf(':') >= 0 && V6.matcher(address).matches())) {
            return null;
        }
        try {
            return InetAddress.getByName(address).getAddress();
        } catch (UnknownHostException e) {
            return null;
        }
    }
}
