package dev.forge.cluster.autoconfigure;

import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.context.annotation.Bean;

/** An auto-configuration that could be extended, with a bean whose type generated code cannot name. */
@AutoConfiguration
public class OffendsAsConfiguration {

    @Bean
    Hidden hidden() {
        return new Hidden();
    }

    private static final class Hidden {}
}
