// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package survival;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.forge.cluster.test.process.AppProcess;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.stream.Stream;

/** Gives processes a wrong clock with libfaketime. */
public final class WrongClock {

    private WrongClock() {}

    /** Sets the clock five minutes ahead. The monotonic clock stays correct, as on a machine whose time was set wrong. */
    public static AppProcess.Builder ahead(AppProcess.Builder process) {
        Optional<Path> library = Stream.of("aarch64-linux-gnu", "x86_64-linux-gnu")
                .map(machine -> Path.of("/usr/lib", machine, "faketime/libfaketime.so.1"))
                .filter(Files::exists)
                .findFirst();
        assumeTrue(library.isPresent(), "Skipped: libfaketime is not installed");
        return process.environment("LD_PRELOAD", library.get().toString())
                .environment("FAKETIME", "+300s")
                .environment("DONT_FAKE_MONOTONIC", "1");
    }
}
