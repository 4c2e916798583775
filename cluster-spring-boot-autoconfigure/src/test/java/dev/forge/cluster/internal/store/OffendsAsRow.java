package dev.forge.cluster.internal.store;

import dev.forge.cluster.OffendsAsWord;
import dev.forge.cluster.internal.engine.OffendsAsThread;

/** A row that knows a thread. */
public class OffendsAsRow {
    OffendsAsThread thread;
    OffendsAsWord word;
}
