// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.enqueue;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Instant;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.OptionalLong;
import java.util.UUID;
import java.util.function.LongSupplier;
import java.util.random.RandomGenerator;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

class JobIdsTests {

    private static final int OBSERVED = 100;
    private static final long RANDOM_BITS = (1L << 62) - 1;

    private static List<Long> observe(LongSupplier randomBits) {
        return LongStream.generate(randomBits).limit(OBSERVED).boxed().toList();
    }

    @Test
    void next_id_cannot_be_predicted_from_a_hundred_ids() {
        var weak = RandomGenerator.of("L32X64MixRandom");
        List<Long> observed = observe(() -> weak.nextLong() >>> 2);
        assertThat(Prediction.after(observed))
                .as("the attack works on Java's default generator")
                .hasValue(weak.nextLong() >>> 2);

        var ids = new JobIds(InstantSource.system());
        assertThat(Prediction.after(observe(() -> ids.next().getLeastSignificantBits() & RANDOM_BITS)))
                .isEmpty();
    }

    @Test
    void ids_of_one_process_are_version_7_and_ascending() {
        var ids = new JobIds(() -> Instant.ofEpochMilli(1_700_000_000_000L));
        List<UUID> made = Stream.generate(ids::next).limit(10_000).toList();
        assertThat(made).allSatisfy(id -> {
            assertThat(id.version()).isEqualTo(7);
            assertThat(id.variant()).isEqualTo(2);
        });
        assertThat(made.stream().map(UUID::toString)).isSorted().doesNotHaveDuplicates();
        assertThat(made.stream().map(UUID::getLeastSignificantBits).distinct()).hasSize(made.size());
    }

    /**
     * Recovers the state of an {@code L32X64MixRandom} from the upper 62 bits of consecutive longs, and computes the next.
     * A long consists of two ints; the upper one is known in full. Unmixed, it is the sum of a linear congruential generator,
     * whose lowest bit is the same for all upper ints, and of a word of a linear shift register: the lowest bits are linear
     * equations over 65 unknown bits.
     */
    private static final class Prediction {

        private static final int MULTIPLIER = 0xadb4a92d;
        private static final int UNKNOWNS = 65;

        /** A system of linear equations over the unknown bits of the register and of the congruential generator. */
        private static final class Equations {

            private final List<boolean[]> rows = new ArrayList<>();

            void add(boolean[] unknowns, boolean value) {
                boolean[] row = Arrays.copyOf(unknowns, UNKNOWNS + 1);
                row[UNKNOWNS] = value;
                rows.add(row);
            }

            /** Returns the unknown bits; null if no assignment, or more than one, satisfies all equations. */
            boolean[] solve() {
                int rank = 0;
                for (int column = 0; column < UNKNOWNS; column++) {
                    int pivot = rank;
                    while (pivot < rows.size() && !rows.get(pivot)[column]) {
                        pivot++;
                    }
                    if (pivot == rows.size()) {
                        return null;
                    }
                    Collections.swap(rows, pivot, rank);
                    for (int i = 0; i < rows.size(); i++) {
                        if (i != rank && rows.get(i)[column]) {
                            for (int k = 0; k <= UNKNOWNS; k++) {
                                rows.get(i)[k] ^= rows.get(rank)[k];
                            }
                        }
                    }
                    rank++;
                }
                if (rows.stream().skip(rank).anyMatch(row -> row[UNKNOWNS])) {
                    return null;
                }
                var solution = new boolean[UNKNOWNS];
                for (int i = 0; i < UNKNOWNS; i++) {
                    solution[i] = rows.get(i)[UNKNOWNS];
                }
                return solution;
            }
        }

        static OptionalLong after(List<Long> observed) {
            int[] upper = observed.stream().mapToInt(Prediction::upper).toArray();
            boolean[] solution = equations(upper).solve();
            if (solution == null) {
                return OptionalLong.empty();
            }
            int x0 = 0;
            int x1 = 0;
            for (int i = 0; i < 32; i++) {
                x0 |= (solution[i] ? 1 : 0) << i;
                x1 |= (solution[32 + i] ? 1 : 0) << i;
            }
            int[] register = {x0, x1};
            int first = upper[0] - x0;
            step(register);
            step(register);
            int third = upper[1] - register[0];
            // third = M * M * first + (M + 1) * a: halved, because M + 1 is even; the top bit of a remains open.
            int a = ((third - MULTIPLIER * (MULTIPLIER * first)) >>> 1) * inverse((MULTIPLIER + 1) >>> 1);
            for (int candidate : new int[] {a & 0x7fffffff, a | 0x80000000}) {
                OptionalLong next = replay(observed, first, candidate, new int[] {x0, x1});
                if (next.isPresent()) {
                    return next;
                }
            }
            return OptionalLong.empty();
        }

        /** Returns the first int of a long, unmixed. */
        private static int upper(long bits) {
            // The lower int was sign-extended before it was combined; its sign is known.
            int upper = (int) (bits >>> 30);
            boolean negative = (bits >>> 29 & 1) == 1;
            return unmix(negative ? ~upper : upper);
        }

        private static Equations equations(int[] upper) {
            var equations = new Equations();
            boolean[][] x0 = new boolean[32][UNKNOWNS];
            boolean[][] x1 = new boolean[32][UNKNOWNS];
            for (int i = 0; i < 32; i++) {
                x0[i][i] = true;
                x1[i][32 + i] = true;
            }
            boolean[][][] register = {x0, x1};
            for (int value : upper) {
                boolean[] low = register[0][0].clone();
                low[UNKNOWNS - 1] ^= true;
                equations.add(low, (value & 1) == 1);
                symbolicStep(register);
                symbolicStep(register);
            }
            return equations;
        }

        private static void step(int[] register) {
            int q0 = register[0];
            int q1 = register[1] ^ register[0];
            register[0] = Integer.rotateLeft(q0, 26) ^ q1 ^ (q1 << 9);
            register[1] = Integer.rotateLeft(q1, 13);
        }

        private static void symbolicStep(boolean[][][] register) {
            boolean[][] q0 = register[0];
            boolean[][] q1 = new boolean[32][];
            for (int i = 0; i < 32; i++) {
                q1[i] = xor(register[1][i], q0[i]);
            }
            boolean[][] x0 = new boolean[32][];
            boolean[][] x1 = new boolean[32][];
            for (int i = 0; i < 32; i++) {
                x0[i] = xor(q0[Math.floorMod(i - 26, 32)], q1[i]);
                if (i >= 9) {
                    x0[i] = xor(x0[i], q1[i - 9]);
                }
                x1[i] = q1[Math.floorMod(i - 13, 32)];
            }
            register[0] = x0;
            register[1] = x1;
        }

        private static boolean[] xor(boolean[] one, boolean[] other) {
            boolean[] result = one.clone();
            for (int i = 0; i < result.length; i++) {
                result[i] ^= other[i];
            }
            return result;
        }

        /** Returns the next bits if the given state produces all observed bits. */
        private static OptionalLong replay(List<Long> observed, int s, int a, int[] register) {
            for (long bits : observed) {
                int[] ints = new int[2];
                for (int i = 0; i < 2; i++) {
                    ints[i] = mix(s + register[0]);
                    s = MULTIPLIER * s + a;
                    step(register);
                }
                if ((((long) ints[0] << 32) ^ ints[1]) >>> 2 != bits) {
                    return OptionalLong.empty();
                }
            }
            int first = mix(s + register[0]);
            s = MULTIPLIER * s + a;
            step(register);
            return OptionalLong.of((((long) first << 32) ^ mix(s + register[0])) >>> 2);
        }

        private static int mix(int z) {
            z = (z ^ (z >>> 16)) * 0xd36d884b;
            z = (z ^ (z >>> 16)) * 0xd36d884b;
            return z ^ (z >>> 16);
        }

        private static int unmix(int z) {
            int inverse = inverse(0xd36d884b);
            z = (z ^ (z >>> 16)) * inverse;
            z = (z ^ (z >>> 16)) * inverse;
            return z ^ (z >>> 16);
        }

        /** Returns the inverse of an odd number modulo 2 to the power of 32. */
        private static int inverse(int odd) {
            int inverse = odd;
            for (int i = 0; i < 5; i++) {
                inverse *= 2 - odd * inverse;
            }
            return inverse;
        }
    }
}
