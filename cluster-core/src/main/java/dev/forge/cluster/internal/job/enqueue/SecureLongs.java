// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.enqueue;

import java.nio.ByteBuffer;
import java.security.NoSuchAlgorithmException;
import java.security.SecureRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;

/**
 * Generates cryptographically secure random numbers, in blocks because a single draw costs a lock and several hashes. Thread-safe.
 * Uses no thread locals, which virtual threads would multiply.
 */
final class SecureLongs {

    private static final int BLOCK = 256;

    private final SecureRandom source;
    private final AtomicReference<Block> current;

    private static final class Block {

        private final long[] longs = new long[BLOCK];
        private final AtomicInteger used = new AtomicInteger();
    }

    SecureLongs() {
        this.source = source();
        this.current = new AtomicReference<>(draw());
    }

    /**
     * Returns a generator that is seeded by the operating system once. On Linux the default generator calls the kernel for each draw
     * and is several times as slow.
     */
    private static SecureRandom source() {
        try {
            return SecureRandom.getInstance("DRBG");
        } catch (NoSuchAlgorithmException e) {
            // The providers of the JDK were replaced; the default of the others is secure, too.
            return new SecureRandom();
        }
    }

    long next() {
        while (true) {
            Block block = current.get();
            int index = block.used.getAndIncrement();
            if (index < BLOCK) {
                long value = block.longs[index];
                // Used values should not stay in memory.
                block.longs[index] = 0;
                return value;
            }
            // Concurrent threads may draw a block each; one of the blocks is kept.
            current.compareAndSet(block, draw());
        }
    }

    private Block draw() {
        var bytes = new byte[BLOCK * Long.BYTES];
        source.nextBytes(bytes);
        var block = new Block();
        ByteBuffer.wrap(bytes).asLongBuffer().get(block.longs);
        return block;
    }
}
