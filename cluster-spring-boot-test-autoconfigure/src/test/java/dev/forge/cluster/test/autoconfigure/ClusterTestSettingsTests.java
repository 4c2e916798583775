// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.autoconfigure;

import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import dev.forge.cluster.test.ClusterTester;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import java.util.List;
import org.junit.jupiter.api.Test;

class ClusterTestSettingsTests {

    @ClusterTest(nodes = 0)
    static class NoNode {}

    @ClusterTest(nodes = 2, mode = ClusterTester.Mode.INLINE)
    static class InlineNodes {}

    @ClusterTest(standby = true)
    static class StandbyOfOneNode {}

    @ClusterTest
    @ClusterPostgres
    static class TwoDatabases {}

    @Test
    void contradicting_settings_are_rejected_with_their_values() {
        assertRejected(NoNode.class, "nodes (0) must be at least 1");
        assertRejected(InlineNodes.class, "mode (INLINE) needs nodes = 1, not 2: several nodes run in mode LIVE");
        assertRejected(
                TwoDatabases.class,
                "leave out @ClusterPostgres. The test has a database already, see ClusterTester.database()");
        assertRejected(StandbyOfOneNode.class, "standby (true) needs nodes (1) to be at least 2");
    }

    private static void assertRejected(Class<?> test, String reason) {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> new ClusterTestContextCustomizerFactory().createContextCustomizer(test, List.of()))
                .withMessage(test.getName() + ": " + reason);
    }
}
