// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import dev.forge.cluster.job.Jobs;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** {@link Jobs} whose payloads a test can read with the types of the application. */
public interface InspectableJobs extends Jobs {

    /** Returns the names under which jobs with payloads of that class may have been enqueued. */
    Set<String> namesOf(Class<?> payload);

    /**
     * Rejects a name whose jobs cannot be found by it.
     *
     * @throws dev.forge.cluster.job.UnknownJobException no node has ever registered a handler of that name, and no job has it
     */
    void requireKnown(String name);

    /** Reads the JSON of a payload. */
    <T> T read(String json, Class<T> type);

    /** Returns a value as the JSON that would be stored. */
    String write(@Nullable Object value);
}
