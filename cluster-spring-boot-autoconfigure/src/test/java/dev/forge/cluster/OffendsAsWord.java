package dev.forge.cluster;

import dev.forge.cluster.internal.store.OffendsAsRow;

/** A word that knows a row, which knows it: a cycle too. */
public class OffendsAsWord {
    OffendsAsRow row;
}
