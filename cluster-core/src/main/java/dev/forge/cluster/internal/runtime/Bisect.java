// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import java.util.List;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import java.util.function.Predicate;
import org.springframework.dao.DataAccessException;

/** Runs a statement on many rows or, while one of them makes it fail, on ever smaller halves of them. */
public final class Bisect<T> {

    private final Consumer<List<T>> statement;
    private final Predicate<DataAccessException> ofRow;
    private final BiConsumer<T, DataAccessException> culprit;
    private int failuresLeft;

    /**
     * Creates a search for rows that make a statement fail.
     *
     * @param ofRow whether one of the rows may be the cause of a failure; any other failure ends the search and is thrown
     * @param mostFailures after so many failures the next one is thrown, too
     * @param culprit called with each row that fails alone
     */
    public Bisect(
            Consumer<List<T>> statement,
            Predicate<DataAccessException> ofRow,
            int mostFailures,
            BiConsumer<T, DataAccessException> culprit) {
        this.statement = statement;
        this.ofRow = ofRow;
        this.failuresLeft = mostFailures;
        this.culprit = culprit;
    }

    /** Runs the statement on all rows, except for those that make it fail. */
    public void run(List<T> rows) {
        if (rows.isEmpty()) {
            return;
        }
        try {
            statement.accept(rows);
        } catch (DataAccessException e) {
            if (!ofRow.test(e) || failuresLeft-- <= 0) {
                throw e;
            }
            int half = rows.size() / 2;
            if (half == 0) {
                culprit.accept(rows.get(0), e);
            } else {
                run(rows.subList(0, half));
                run(rows.subList(half, rows.size()));
            }
        }
    }
}
