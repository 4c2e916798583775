// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import java.util.Collection;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * The requests that a resource understands, each with the names of its parameters. Other parameters are refused: a misspelt condition
 * would otherwise let an operation change all jobs.
 *
 * @param list those of a read of the resource
 * @param entry those of a read of one entry; null: entries cannot be read
 * @param changeOfAll those of a change of many entries; null: many cannot be changed at once
 * @param change those of a change of one entry; null: entries cannot be changed
 */
public record ResourceParameters(
        Set<String> list,
        @Nullable Set<String> entry,
        @Nullable Set<String> changeOfAll,
        @Nullable Set<String> change) {

    /** Returns the parameters of a resource that can only be listed. */
    public static ResourceParameters ofList(String... names) {
        return new ResourceParameters(Set.of(names), null, null, null);
    }

    /** Returns a copy whose entries can be read. */
    public ResourceParameters withEntry(String... names) {
        return new ResourceParameters(list, Set.of(names), changeOfAll, change);
    }

    /** Returns a copy whose entries can be changed. */
    public ResourceParameters withChange(String... names) {
        return new ResourceParameters(list, entry, changeOfAll, Set.of(names));
    }

    /** Returns a copy of which many entries can be changed at once. */
    public ResourceParameters withChangeOfAll(Collection<String> names) {
        return new ResourceParameters(list, entry, Set.copyOf(names), change);
    }

    /** Returns names together with others. */
    public static Set<String> together(Collection<String> names, String... others) {
        return Stream.concat(names.stream(), Stream.of(others)).collect(Collectors.toUnmodifiableSet());
    }
}
