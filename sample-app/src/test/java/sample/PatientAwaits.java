package sample;

import java.time.Duration;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/** Waits a minute for what must happen: a busy machine makes a test slower, not red. Forgets what other classes have set. */
public final class PatientAwaits implements BeforeAllCallback {

    @Override
    public void beforeAll(ExtensionContext context) {
        Awaitility.reset();
        Awaitility.setDefaultTimeout(Duration.ofMinutes(1));
    }
}
