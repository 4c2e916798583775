package dev.forge.cluster.internal.runtime;

import java.time.Duration;
import java.util.UUID;

/**
 * A handler or a step that runs on although it was told to stop.
 *
 * @param job the name of its job
 * @param label what runs, with its attempt or its step
 * @param cause why it was told to stop
 * @param forTime how long it has ignored that
 */
public record StuckHandler(String job, UUID id, String label, String cause, Duration forTime) {}
