// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Collections;
import org.junit.jupiter.api.Test;

class ErrorTextTests {

    private static final String LONG = "x".repeat(100_000);

    @Test
    void short_exception_is_logged_unchanged() {
        var failure = new IllegalStateException("no", new IllegalArgumentException("cause"));
        assertThat(ErrorText.loggable(failure)).isSameAs(failure);
    }

    @Test
    void message_cannot_forge_a_log_line_or_control_a_terminal() {
        var failure = new IllegalStateException("value 'x\n2026-01-01 ERROR forged\r\nand\u001b[2J more\u0085'");
        failure.addSuppressed(new IllegalStateException("Unexpected token\n at [Source: line 1]"));
        Throwable logged = ErrorText.loggable(failure);
        assertThat(logged.toString())
                .isEqualTo("java.lang.IllegalStateException: value 'x\n\t2026-01-01 ERROR forged\n\tand?[2J more?'");
        assertThat(logged.getStackTrace()).isEqualTo(failure.getStackTrace());
        assertThat(ErrorText.storable(failure)).contains("\n\t2026-01-01 ERROR forged\n\tand?[2J more?'");
        assertThat(ErrorText.firstLine("red \u001b[31m text\nmore")).isEqualTo("red ?[31m text");
        assertThat(ErrorText.firstLine("new\u2028line, \u202edesrever\u202c and \u2066apart\u2069"))
                .isEqualTo("new?line, ?desrever? and ?apart?");
        Throwable indented = failure.getSuppressed()[0];
        assertThat(ErrorText.loggable(indented)).isSameAs(indented);
    }

    @Test
    void long_messages_are_shortened_and_stack_traces_kept() {
        var failure = new IllegalStateException(LONG, new IllegalArgumentException(LONG));
        failure.addSuppressed(new IllegalStateException(LONG));
        Throwable shortened = ErrorText.loggable(failure);
        assertThat(shortened.toString())
                .startsWith("java.lang.IllegalStateException: xxx")
                .hasSizeLessThan(2_100);
        assertThat(shortened.getStackTrace()).isEqualTo(failure.getStackTrace());
        assertThat(shortened.getCause().toString())
                .startsWith("java.lang.IllegalArgumentException: xxx")
                .hasSizeLessThan(2_100);
        assertThat(shortened.getSuppressed()).hasSize(1);
        assertThat(ErrorText.storable(failure))
                .hasSizeLessThan(21_000)
                .contains(
                        "at dev.forge.cluster.internal.runtime.ErrorTextTests", "Caused by: java.lang.IllegalArgument");
    }

    @Test
    void circular_causes_terminate() {
        var first = new IllegalStateException(LONG);
        var second = new IllegalStateException("second", first);
        first.initCause(second);
        assertThat(ErrorText.storable(first)).contains("second").hasSizeLessThan(21_000);
    }

    @Test
    void deep_stacks_are_bounded() {
        var failure = new StackOverflowError();
        failure.setStackTrace(Collections.nCopies(5_000, new StackTraceElement("A", "b", "A.java", 1))
                .toArray(StackTraceElement[]::new));
        assertThat(ErrorText.loggable(failure).getStackTrace()).hasSize(200);
    }

    @Test
    void exception_that_cannot_be_printed_is_logged_with_its_class() {
        var failure = new RuntimeException() {
            private static final long serialVersionUID = 1L;

            @Override
            public String getMessage() {
                throw new IllegalStateException("no message");
            }
        };
        assertThat(ErrorText.brief(failure)).contains("ErrorTextTests", "cannot be printed");
        assertThat(ErrorText.storable(failure)).contains("ErrorTextTests", "cannot be printed");
    }

    @Test
    void text_is_cut_between_characters_and_has_no_nul() {
        assertThat(ErrorText.bounded("a\ud83d\ude00b", 2)).isEqualTo("a... (4 characters)");
        assertThat(ErrorText.bounded("a\0b", 10)).isEqualTo("a b");
        assertThat(ErrorText.firstLine("one\ntwo")).isEqualTo("one");
    }
}
