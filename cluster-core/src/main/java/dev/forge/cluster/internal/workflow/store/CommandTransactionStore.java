// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow.store;

import dev.forge.cluster.internal.database.CallerTransaction;
import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.database.failure.DatabaseFailure.Kind;
import java.time.Duration;
import java.util.Objects;
import java.util.UUID;
import java.util.function.Supplier;
import javax.sql.DataSource;
import org.springframework.dao.CannotAcquireLockException;
import org.springframework.dao.DataAccessException;
import org.springframework.jdbc.core.JdbcTemplate;

/**
 * The transaction in which a command (signal, cancel, retry) changes a run: the caller's, or one of its own. The command waits a
 * bounded time for each row that another transaction has locked.
 *
 * <p>A command that is rejected, or that cannot lock a row, leaves no change in the caller's transaction. That transaction can
 * continue, with the {@code lock_timeout} that it had before.
 */
final class CommandTransactionStore {

    private static final Duration LOCK_WAIT = Duration.ofSeconds(5);

    private final CallerTransaction caller;
    private final JdbcTemplate jdbc;

    CommandTransactionStore(DataSource source) {
        this.caller = new CallerTransaction(source);
        this.jdbc = new JdbcTemplate(source);
    }

    /**
     * Executes a command to a run.
     *
     * @param command its name, for the message of the exception
     * @throws CannotAcquireLockException if another transaction keeps a row locked for too long
     */
    <T> T execute(String command, UUID run, Supplier<T> work) {
        boolean joins = caller.isActive();
        // A rollback restores the lock_timeout, too.
        return caller.inOne(() -> {
            LockTimeout timeout = limitLockWait();
            T result = locking(command, run, timeout, work);
            if (joins) {
                restore(timeout);
            }
            return result;
        });
    }

    /** The {@code lock_timeout} that the transaction had before, and the one that the command has. */
    private record LockTimeout(String former, String effective) {}

    /** Limits the wait for locks for the rest of the transaction; a shorter limit of the application stays in force. */
    private LockTimeout limitLockWait() {
        return Objects.requireNonNull(jdbc.queryForObject(
                """
                SELECT current_setting('lock_timeout'),
                       CASE WHEN current_setting('lock_timeout')::interval
                                BETWEEN interval '1 millisecond' AND interval '%1$d milliseconds'
                           THEN current_setting('lock_timeout') ELSE set_config('lock_timeout', '%1$dms', true) END
                """.formatted(LOCK_WAIT.toMillis()), (row, n) -> new LockTimeout(row.getString(1), row.getString(2))));
    }

    private void restore(LockTimeout timeout) {
        if (!timeout.former.equals(timeout.effective)) {
            jdbc.queryForObject("SELECT set_config('lock_timeout', ?, true)", String.class, timeout.former);
        }
    }

    private static <T> T locking(String command, UUID run, LockTimeout timeout, Supplier<T> work) {
        try {
            return work.get();
        } catch (DataAccessException e) {
            if (DatabaseFailure.kind(e) != Kind.LOCK_TIMEOUT) {
                throw e;
            }
            throw new CannotAcquireLockException(
                    ("Workflow run %s: %s not executed, another transaction has locked the row of the run, of one of its"
                                    + " children or of their jobs for longer than %s. Nothing was changed. Repeat the call; if it"
                                    + " fails again, find the session that holds the lock with pg_blocking_pids and end its"
                                    + " transaction.")
                            .formatted(run, command, timeout.effective),
                    e);
        }
    }
}
