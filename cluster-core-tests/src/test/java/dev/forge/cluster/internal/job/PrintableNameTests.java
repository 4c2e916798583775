// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.dao.DataIntegrityViolationException;

/** The characters of names: Java and the constraints of the tables accept the same ones. */
@ClusterPostgres
class PrintableNameTests {

    private final TestDatabase database;

    PrintableNameTests(TestDatabase database) {
        this.database = database;
    }

    /** Control characters, separators, marks of direction, invisible and unassigned characters, those beyond 16 bits. */
    private static List<Integer> oddCharacters() {
        var odd = new ArrayList<Integer>();
        IntStream.rangeClosed(0x01, 0x20).forEach(odd::add);
        IntStream.rangeClosed(0x7e, 0xa1).forEach(odd::add);
        IntStream.rangeClosed(0x2000, 0x206f).forEach(odd::add);
        odd.addAll(List.of(
                0xad, 0x378, 0x61c, 0x180e, 0x1680, 0x3000, 0xd7ff, 0xe000, 0xfeff, 0xfff9, 0xfffd, 0xffff, 0x1f600,
                0xe0001, 0x10ffff));
        return odd;
    }

    private boolean isStorable(String sql, String name) {
        try {
            return database.jdbc().sql(sql).param(name).query(Boolean.class).single();
        } catch (DataIntegrityViolationException e) {
            return false;
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"name", "key", "capability", "group"})
    void java_and_the_database_accept_the_same_characters(String kind) {
        String sql = "SELECT ?::forge_job_%s IS NOT NULL".formatted(kind);
        assertThat(oddCharacters()).allSatisfy(odd -> {
            String name = "a" + Character.toString(odd) + "b";
            assertThat(isStorable(sql, name)).as("U+%04X", odd).isEqualTo(Names.isPrintable(name));
        });
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "SELECT ?::forge_job_name IS NOT NULL",
                "SELECT ?::forge_job_capability IS NOT NULL",
                "SELECT forge_enqueue(?) IS NOT NULL",
                "SELECT forge_enqueue('order', capability => ?) IS NOT NULL"
            })
    void name_of_summed_entries_is_refused(String sql) {
        assertThat(isStorable(sql, Names.OTHERS)).isFalse();
        assertThat(isStorable(sql, "other")).isTrue();
    }

    @ParameterizedTest
    @ValueSource(ints = {0x2028, 0x2029, 0x85, 0x1b})
    void separators_and_control_characters_are_refused(int odd) {
        String name = "a" + Character.toString(odd) + "b";
        assertThat(Names.isPrintable(name)).isFalse();
        assertThat(isStorable("SELECT ?::forge_job_name IS NOT NULL", name)).isFalse();
        assertThat(isStorable("SELECT forge_enqueue(?) IS NOT NULL", name)).isFalse();
    }
}
