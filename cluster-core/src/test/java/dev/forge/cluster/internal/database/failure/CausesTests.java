// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database.failure;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.Test;

class CausesTests {

    @Test
    void root_is_the_last_cause() {
        var root = new IllegalStateException("root");
        assertThat(Causes.root(new RuntimeException(new RuntimeException(root))))
                .isSameAs(root);
        assertThat(Causes.root(root)).isSameAs(root);
    }

    @Test
    void circular_causes_terminate() {
        var one = new RuntimeException("one");
        var two = new RuntimeException("two", one);
        one.initCause(two);
        Throwable root = Assertions.assertTimeoutPreemptively(Duration.ofMinutes(1), () -> Causes.root(one));
        assertThat(root).isIn(one, two);
        assertThat(Causes.of(one)).hasSizeLessThanOrEqualTo(20);
    }

    @Test
    void exception_whose_getCause_throws_has_no_cause() {
        var unanswerable = new RuntimeException("outer") {
            private static final long serialVersionUID = 1L;

            @Override
            public synchronized Throwable getCause() {
                throw new IllegalStateException("no cause");
            }
        };
        assertThat(Causes.root(unanswerable)).isSameAs(unanswerable);
    }
}
