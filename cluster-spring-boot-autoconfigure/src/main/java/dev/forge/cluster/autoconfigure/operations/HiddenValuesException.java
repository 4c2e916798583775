// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import java.util.Collection;
import java.util.TreeSet;

/**
 * Thrown if a caller who may not see values selects by them, because the number of entries that are found would disclose the values,
 * or asks for a response that contains them in any case, such as the history of a run. See {@link Caller#seesValues()}.
 */
public final class HiddenValuesException extends InvalidOperationException {

    private static final long serialVersionUID = 1L;

    /** @param parameters the parameters that select by values */
    public HiddenValuesException(Collection<String> parameters) {
        super("The parameters %s select by values that are hidden from this user".formatted(new TreeSet<>(parameters)));
    }

    /** @param message says what contains hidden values */
    public HiddenValuesException(String message) {
        super(message);
    }
}
