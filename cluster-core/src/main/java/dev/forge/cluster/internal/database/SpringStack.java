// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import java.util.function.Function;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * What Spring is doing on this thread, as its stack shows. Nothing else shows it for the transactions of a manager that tells the
 * cluster nothing: one of another data source, or one that is no bean.
 */
enum SpringStack {
    BEGUN,
    AFTER_COMMIT,
    AFTER_COMPLETION;

    /** Returns what Spring has done last; null for nothing, or for a transaction that was begun by hand. */
    static @Nullable SpringStack nearest() {
        return walk(all -> all.findFirst().orElse(null));
    }

    /** Returns whether Spring tells this thread of the end of a transaction, even if another one has begun since. */
    static boolean isInCallback() {
        return walk(all -> all.anyMatch(each -> each != BEGUN));
    }

    private static <T extends @Nullable Object> T walk(Function<Stream<SpringStack>, T> result) {
        return StackWalker.getInstance()
                .walk(frames -> result.apply(frames.filter(
                                frame -> frame.getClassName().startsWith("org.springframework.transaction."))
                        .mapMulti((frame, next) -> {
                            switch (frame.getMethodName()) {
                                case "invokeWithinTransaction", "execute" -> next.accept(BEGUN);
                                case "invokeAfterCommit" -> next.accept(AFTER_COMMIT);
                                case "invokeAfterCompletion" -> next.accept(AFTER_COMPLETION);
                                default -> {}
                            }
                        })));
    }
}
