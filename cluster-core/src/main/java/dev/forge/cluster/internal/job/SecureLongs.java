package dev.forge.cluster.internal.job;

import java.nio.ByteBuffer;
import java.security.NoSuchAlgorithmException;
import java.security.SecureRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;

/**
 * Random longs of a cryptographically secure source, drawn in blocks because a single draw costs a lock and several hashes.
 * Safe for any number of threads; without thread locals, which virtual threads would multiply.
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
     * Seeded by the operating system, then computed here. On Linux the default source asks the kernel for each draw and is
     * several times as slow.
     */
    private static SecureRandom source() {
        try {
            return SecureRandom.getInstance("DRBG");
        } catch (NoSuchAlgorithmException e) {
            // The JDK's providers were replaced; the first of the others is secure, too.
            return new SecureRandom();
        }
    }

    long next() {
        while (true) {
            Block block = current.get();
            int index = block.used.getAndIncrement();
            if (index < BLOCK) {
                long value = block.longs[index];
                // Used values need not stay in memory.
                block.longs[index] = 0;
                return value;
            }
            // Threads that find the block used up at the same time draw one each; one of them is kept.
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
