// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.cron;

import dev.forge.cluster.autoconfigure.job.JobAutoConfiguration;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.context.annotation.Bean;

/**
 * An auto-configuration that is not final, uses another slice, and has a bean whose type generated code cannot access.
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
