package dev.forge.cluster.internal.engine;

import dev.forge.cluster.JobInfo;
import dev.forge.cluster.JobOptions;
import dev.forge.cluster.JobStatus;
import dev.forge.cluster.PermanentJobFailure;
import dev.forge.cluster.Step;
import dev.forge.cluster.StepFailedException;
import dev.forge.cluster.WorkflowContext;
import dev.forge.cluster.WorkflowInfo;
import dev.forge.cluster.WorkflowStatus;
import dev.forge.cluster.internal.engine.Unwinding.Waits;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.store.JobStore.NewJob;
import dev.forge.cluster.internal.store.StepRow;
import dev.forge.cluster.internal.store.WorkflowStore;
import dev.forge.cluster.internal.store.WorkflowStore.NewRun;
import dev.forge.cluster.internal.store.WorkflowStore.Signal;
import dev.forge.cluster.internal.store.WorkflowStore.Version;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.UUID;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.dao.ConcurrencyFailureException;
import org.springframework.dao.DuplicateKeyException;

/**
 * What the method of a workflow sees of its run. What is remembered is answered from memory; what is not is done, or ends the
 * method where it has to wait.
 */
final class RunContext implements WorkflowContext {

    private static final Logger log = GuardedLogger.of(RunContext.class);
    private static final Duration LONGEST = Duration.ofDays(36_500);
    private static final Duration LOOK_AGAIN = Duration.ofSeconds(1);

    private final WorkflowEngine engine;
    private final Version version;
    private final Running job;
    private final WorkflowMemory memory;
    private final WorkflowSteps steps;
    private @Nullable String state;

    RunContext(WorkflowEngine engine, Version version, Running job, WorkflowMemory memory, WorkflowSteps steps) {
        this.engine = engine;
        this.version = version;
        this.job = job;
        this.memory = memory;
        this.steps = steps;
    }

    @Override
    public UUID id() {
        return job.id();
    }

    @Override
    public String name() {
        return version.workflow();
    }

    @Override
    public String version() {
        return version.version();
    }

    // Steps -------------------------------------------------------------------------------------------------

    @Override
    @SuppressWarnings("NullAway") // A step that returns nothing returns null.
    public <T> T step(Step<T> step) {
        return steps.step(step);
    }

    @Override
    public <T> List<T> all(List<? extends Step<? extends T>> several) {
        return steps.all(several);
    }

    // Time and signals --------------------------------------------------------------------------------------

    private static Duration bounded(String what, Duration duration) {
        if (duration.isNegative() || duration.compareTo(LONGEST) > 0) {
            throw new IllegalArgumentException(
                    "%s: %s; it must lie between none and a hundred years".formatted(what, duration));
        }
        return duration;
    }

    @Override
    public void sleep(String name, Duration duration) {
        bounded("sleep '%s'".formatted(name), duration);
        StepRow known = memory.next("sleep", name);
        if (known != null && known.status().equals("completed")) {
            return;
        }
        StepRow row = known != null
                ? known
                : memory.fresh("sleep", name, "waiting")
                        .until(memory.databaseNow().plus(duration));
        Instant until = Objects.requireNonNull(row.wakeAt());
        if (until.isAfter(memory.databaseNow())) {
            memory.requireOnward();
            throw memory.unwind(Waits.until(until, List.of(row)));
        }
        memory.later(row.with("completed", null));
    }

    @Override
    @SuppressWarnings("NullAway") // A signal without payload is null.
    public <T> T awaitSignal(String name, Class<T> type) {
        Given<T> given = signal(name, type, null);
        return given == null ? null : given.payload;
    }

    @Override
    public <T> Optional<T> awaitSignal(String name, Class<T> type, Duration timeout) {
        if (type == Void.class || type == void.class) {
            throw new IllegalArgumentException(
                    "signal '%s': nobody could tell one without payload from none; use awaitSignal(name, timeout)"
                            .formatted(name));
        }
        Given<T> given = signal(name, type, bounded("signal '%s'".formatted(name), timeout));
        return given == null ? Optional.empty() : Optional.ofNullable(given.payload);
    }

    @Override
    public boolean awaitSignal(String name, Duration timeout) {
        return signal(name, Void.class, bounded("signal '%s'".formatted(name), timeout)) != null;
    }

    private record Given<T>(@Nullable T payload) {}

    /** A signal; null if none has come in time. */
    private <T> @Nullable Given<T> signal(String name, Class<T> type, @Nullable Duration timeout) {
        StepRow known = memory.next("signal", name);
        if (known != null && !known.status().equals("waiting")) {
            return known.status().equals("timed_out") ? null : new Given<>(memory.read(known, type));
        }
        memory.requireOnward();
        StepRow row = known != null
                ? known
                : memory.fresh("signal", name, "waiting")
                        .until(timeout == null ? null : memory.databaseNow().plus(timeout));
        for (Signal signal = memory.takeSignal(name); signal != null; signal = memory.takeSignal(name)) {
            StepRow taken = row.with("completed", signal.payload());
            Given<T> given = given(taken, type);
            if (given != null && (given.payload != null || timeout == null || type == Void.class)) {
                memory.requireRoom(taken.result());
                memory.remember(taken, signal.id());
                return given;
            }
            log.warn("run {}: a signal '{}' is set aside, {} is awaited", id(), name, type.getName());
            memory.setAside(signal);
        }
        Instant deadline = row.wakeAt();
        // By the time of the snapshot that has shown no signal: one that came before the deadline must have been seen.
        if (deadline != null && !deadline.isAfter(memory.snapshotTime())) {
            memory.remember(row.with("timed_out", null), null);
            return null;
        }
        throw memory.unwind(new Waits(List.of(row), deadline, name, null));
    }

    /** Null if it cannot be read as that. */
    private <T> @Nullable Given<T> given(StepRow taken, Class<T> type) {
        try {
            return new Given<>(memory.read(taken, type));
        } catch (RuntimeException e) {
            log.warn("run {}: a signal '{}' cannot be read", id(), taken.name(), ErrorText.loggable(e));
            return null;
        }
    }

    // Other jobs and runs -----------------------------------------------------------------------------------

    @Override
    public <T> T job(String name, @Nullable Object payload, Class<T> type) {
        return job(name, payload, type, null);
    }

    @Override
    public <T> T job(
            String name, @Nullable Object payload, Class<T> type, Step.@Nullable Compensation<T> compensation) {
        StepRow known = memory.next("job", name);
        if (known == null) {
            StepRow row = memory.fresh("job", name, "waiting");
            NewJob fresh = memory.guarded(() -> engine.jobs()
                    .prepare(
                            name,
                            payload,
                            JobOptions.defaults().withMetadata(WorkflowEngine.AWAITED, id().toString())));
            throw awaited(row, fresh.id(), () -> engine.insert(fresh, key(row)));
        }
        return outcome(known, type, compensation, () -> {
            JobInfo other = engine.find(ref(known)).orElse(null);
            return other == null
                    ? new Other(true, false, null, "its row was deleted")
                    : new Other(
                            other.status().isFinal(),
                            other.status() == JobStatus.COMPLETED,
                            other.result(),
                            "the job is %s: %s".formatted(other.status(), other.lastError()));
        });
    }

    @Override
    public <T> T child(String workflow, @Nullable Object input, Class<T> type) {
        return child(workflow, input, type, null);
    }

    @Override
    public <T> T child(
            String workflow, @Nullable Object input, Class<T> type, Step.@Nullable Compensation<T> compensation) {
        StepRow known = memory.next("child", workflow);
        if (known == null) {
            StepRow row = memory.fresh("child", workflow, "waiting");
            // One that somebody has retried before this run was.
            UUID active = memory.guarded(() -> engine.store().activeChild(id(), key(row)))
                    .orElse(null);
            if (active != null) {
                throw awaited(row, active, () -> {});
            }
            NewRun fresh = memory.guarded(
                    () -> engine.prepare(workflow, input, null, new WorkflowEngine.Parent(id(), key(row))));
            throw awaited(row, fresh.id(), () -> start(fresh));
        }
        return outcome(known, type, compensation, () -> {
            WorkflowInfo child = engine.findChild(ref(known)).orElse(null);
            return child == null
                    ? new Other(true, false, null, "its run is gone")
                    : new Other(
                            child.status().isFinal(),
                            child.status() == WorkflowStatus.COMPLETED,
                            child.result(),
                            "the run is %s: %s".formatted(child.status(), child.lastError()));
        });
    }

    private void start(NewRun child) {
        try {
            engine.store().insert(child);
        } catch (DuplicateKeyException e) {
            // Without its cause: nothing is wrong with what was to be stored. The next execution waits for the other
            // one.
            throw new ConcurrencyFailureException("a former child '%s' of run %s was retried in this moment"
                    .formatted(child.version().label(), id()));
        }
    }

    /** Another job or run. */
    private record Other(
            boolean ended, boolean completed, @Nullable String result, String failure) {}

    /** The unique key of the job that a row stands for. */
    String key(StepRow row) {
        return "%s%s:%d".formatted(WorkflowStore.PREFIX, id(), row.position());
    }

    private static Waits forJob(UUID job) {
        return new Waits(List.of(), null, null, job);
    }

    /**
     * How to wait for a child that has not ended. If its job has, or was deleted, nothing would free this run: the leader fails
     * the child, or gives it a job, and this run looks again.
     */
    Waits forChild(UUID child) {
        boolean carried = memory.guarded(() -> engine.find(child))
                .map(job -> !job.status().isFinal())
                .orElse(false);
        return carried ? forJob(child) : Waits.until(memory.databaseNow().plus(LOOK_AGAIN), List.of());
    }

    private static UUID ref(StepRow row) {
        return Objects.requireNonNull(row.ref());
    }

    private Unwinding awaited(StepRow row, UUID other, Runnable before) {
        return memory.unwind(new Waits(List.of(row.waitingFor(other)), null, null, other, before));
    }

    @SuppressWarnings("NullAway") // What returns nothing returns null.
    private <T> T outcome(
            StepRow known, Class<T> type, Step.@Nullable Compensation<T> compensation, Supplier<Other> look) {
        switch (known.status()) {
            case "completed", "compensated", "compensation_failed" -> {
                return completed(known, type, compensation);
            }
            case "failed" -> throw new StepFailedException(known.name(), known.error());
            default -> {}
        }
        Other other = memory.guarded(look);
        if (memory.isReplay() && other.completed) {
            // It has completed, but the run was cancelled before it heard of that.
            completed(known.with("completed", other.result), type, compensation);
        }
        memory.requireOnward();
        if (!other.ended) {
            throw memory.unwind(known.kind().equals("child") ? forChild(ref(known)) : forJob(ref(known)));
        }
        if (!other.completed) {
            memory.remember(known.failed("failed", 1, other.failure), null);
            throw new StepFailedException(known.name(), other.failure);
        }
        StepRow done = known.with("completed", other.result);
        try {
            memory.requireRoom(other.result);
        } catch (PermanentJobFailure e) {
            completed(done, type, compensation);
            throw e;
        }
        memory.later(done);
        return completed(done, type, compensation);
    }

    /** The result of a job or a child that has completed, and may have to be compensated later. */
    @SuppressWarnings("NullAway") // What returns nothing returns null.
    private <T> T completed(StepRow done, Class<T> type, Step.@Nullable Compensation<T> compensation) {
        if (compensation == null && done.kind().equals("child")) {
            steps.add(new WorkflowSteps.CompletedChild(done));
        }
        T result = memory.read(done, type);
        if (compensation != null) {
            Step<T> step = Step.<T>of(done.name(), type, () -> null).compensate(compensation);
            steps.add(new WorkflowSteps.Undoing<>(done, step, compensation, result));
        }
        return result;
    }

    // The rest ----------------------------------------------------------------------------------------------

    @Override
    public Instant now() {
        StepRow known = memory.next("now", "now");
        if (known != null) {
            return Instant.parse(Objects.requireNonNull(memory.read(known, String.class)));
        }
        Instant now = memory.databaseNow();
        memory.later(memory.fresh("now", "now", "completed").with("completed", "\"" + now + "\""));
        return now;
    }

    @Override
    public UUID randomUuid() {
        StepRow known = memory.next("uuid", "uuid");
        if (known != null) {
            return UUID.fromString(Objects.requireNonNull(memory.read(known, String.class)));
        }
        UUID random = UUID.randomUUID();
        memory.later(memory.fresh("uuid", "uuid", "completed").with("completed", "\"" + random + "\""));
        return random;
    }

    @Override
    public void saveState(Object value) {
        StepRow known = memory.next("state", "state");
        if (known != null) {
            state = known.result();
            return;
        }
        String text = engine.json().write(value);
        memory.requireRoom(text);
        state = text;
        memory.later(memory.fresh("state", "state", "completed").with("completed", state));
    }

    @Override
    public <T> Optional<T> state(Class<T> type) {
        String saved = state;
        return saved == null
                ? Optional.empty()
                : Optional.ofNullable(engine.json().readAs(saved, type));
    }

    @Override
    public void progress(int percent, String message) {
        job.progress(percent, message);
    }
}
