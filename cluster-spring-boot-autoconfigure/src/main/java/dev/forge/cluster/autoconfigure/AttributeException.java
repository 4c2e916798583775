package dev.forge.cluster.autoconfigure;

import java.io.Serial;
import org.jspecify.annotations.Nullable;

/** An attribute of an annotation cannot be read; says what to do about it. */
final class AttributeException extends IllegalArgumentException {

    @Serial
    private static final long serialVersionUID = 1L;

    private final String action;

    AttributeException(String message, String action, @Nullable Throwable cause) {
        super(message, cause);
        this.action = action;
    }

    /** An attribute with a value that it cannot have. */
    static AttributeException of(String attribute, String value, @Nullable String reason, @Nullable Throwable cause) {
        return new AttributeException(
                "%s (%s): %s".formatted(attribute, value, reason),
                "Correct the attribute %s, or the property that its placeholder names.".formatted(attribute),
                cause);
    }

    /** What to do about a wrong annotation: about its attribute if that is what is wrong, otherwise about its method. */
    static String action(RuntimeException failure, String aboutTheMethod) {
        return failure instanceof AttributeException attribute ? attribute.action : aboutTheMethod;
    }
}
