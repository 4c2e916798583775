// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.handler;

import java.io.Serial;
import org.jspecify.annotations.Nullable;

/** An annotation is invalid, or its method is; carries the action that the start-up failure prints. */
public final class AttributeException extends IllegalArgumentException {

    @Serial
    private static final long serialVersionUID = 1L;

    public final String action;

    AttributeException(String message, String action, @Nullable Throwable cause) {
        super(message, cause);
        this.action = action;
    }

    /** Creates an exception for an attribute with an invalid value. */
    public static AttributeException of(
            String attribute, String value, @Nullable String reason, @Nullable Throwable cause) {
        return new AttributeException(
                "%s (%s): %s".formatted(attribute, value, reason),
                "Correct the attribute %s, or the property that its placeholder names.".formatted(attribute),
                cause);
    }

    public static AttributeException withAction(String message, String action) {
        return new AttributeException(message, action, null);
    }

    /** Returns the action of the failure if it has one, otherwise the given one. */
    public static String action(RuntimeException failure, String aboutTheMethod) {
        return failure instanceof AttributeException attribute ? attribute.action : aboutTheMethod;
    }
}
