// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.cron;

import dev.forge.cluster.autoconfigure.job.JobAutoConfiguration;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.context.annotation.Bean;

/**
 * An auto-configuration that could be extended, that uses another slice, with a bean whose type generated code cannot name.
 */
@AutoConfiguration
public class OffendsAsConfiguration {

    JobAutoConfiguration otherSlice;

    @Bean
    Hidden hidden() {
        return new Hidden();
    }

    private static final class Hidden {}
}
