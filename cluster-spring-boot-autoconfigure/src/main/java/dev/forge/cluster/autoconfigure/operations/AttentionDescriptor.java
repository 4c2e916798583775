// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import java.util.List;

/**
 * What needs the attention of an operator, as the resource {@code attention} returns it.
 *
 * @param items the most severe first
 * @param cutOff whether there are more
 */
public record AttentionDescriptor(List<ItemDescriptor> items, boolean cutOff) {

    /**
     * Something that needs attention.
     *
     * @param kind what is the matter, such as failing-jobs or missed-cron
     * @param severity critical or warning
     * @param target the name or id of the thing that is affected
     * @param text what is the matter, as a sentence
     * @param nextStep what the operator can do, as a sentence
     */
    public record ItemDescriptor(String kind, String severity, String target, String text, String nextStep) {}
}
