// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.attention;

import dev.forge.cluster.autoconfigure.attention.Attention.Item;
import dev.forge.cluster.autoconfigure.attention.Attention.Kind;
import dev.forge.cluster.autoconfigure.attention.Attention.Severity;
import dev.forge.cluster.internal.runtime.Names;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;

/** Collects items, a limited number of each kind. */
final class AttentionItems {

    /** How many items of a kind are returned. */
    static final int MOST_OF_A_KIND = 20;

    private final List<Item> items = new ArrayList<>();
    private final Map<Kind, Integer> numbers = new EnumMap<>(Kind.class);
    private boolean cutOff;

    void critical(Kind kind, String target, String text, String nextStep) {
        add(new Item(kind, Severity.CRITICAL, Names.printable(target), text, nextStep));
    }

    void warning(Kind kind, String target, String text, String nextStep) {
        add(new Item(kind, Severity.WARNING, Names.printable(target), text, nextStep));
    }

    /** Returns whether there is such an item. */
    boolean contains(Kind kind, String target) {
        String printable = Names.printable(target);
        return items.stream()
                .anyMatch(item -> item.kind() == kind && item.target().equals(printable));
    }

    private void add(Item item) {
        if (numbers.merge(item.kind(), 1, Integer::sum) <= MOST_OF_A_KIND) {
            items.add(item);
        } else {
            cutOff = true;
        }
    }

    Attention attention() {
        items.sort(
                Comparator.comparing(Item::severity).thenComparing(Item::kind).thenComparing(Item::target));
        return new Attention(items, cutOff);
    }
}
