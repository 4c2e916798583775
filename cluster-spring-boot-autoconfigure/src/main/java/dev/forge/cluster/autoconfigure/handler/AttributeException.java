package dev.forge.cluster.autoconfigure.handler;

import java.io.Serial;
import org.jspecify.annotations.Nullable;

/** An attribute of an annotation cannot be read; says what to do about it. */
public final class AttributeException extends IllegalArgumentException {

    @Serial
    private static final long serialVersionUID = 1L;

    public final String action;

    AttributeException(String message, String action, @Nullable Throwable cause) {
        super(message, cause);
        this.action = action;
    }

    /** An attribute with a value that it cannot have. */
    public static AttributeException of(
            String attribute, String value, @Nullable String reason, @Nullable Throwable cause) {
        return new AttributeException(
                "%s (%s): %s".formatted(attribute, value, reason),
                "Correct the attribute %s, or the property that its placeholder names.".formatted(attribute),
                cause);
    }

    /** What to do about a wrong annotation: about its attribute if that is what is wrong, otherwise about its method. */
    public static String action(RuntimeException failure, String aboutTheMethod) {
        return failure instanceof AttributeException attribute ? attribute.action : aboutTheMethod;
    }
}
