// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.documentation;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.autoconfigure.properties.ClusterProperties;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.springframework.boot.context.properties.bind.BindException;
import org.springframework.boot.context.properties.bind.BindHandler;
import org.springframework.boot.context.properties.bind.Bindable;
import org.springframework.boot.context.properties.bind.Binder;
import org.springframework.boot.context.properties.bind.handler.NoUnboundElementsBindHandler;
import org.springframework.boot.context.properties.source.ConfigurationPropertySources;
import org.springframework.boot.env.YamlPropertySourceLoader;
import org.springframework.core.env.PropertySource;
import org.springframework.core.io.ByteArrayResource;

/** Verifies that every YAML block of README and guide with keys of the cluster binds without unknown keys. */
class YamlBlockTests {

    @Test
    void every_block_binds() throws IOException {
        int bound = 0;
        for (Pages.Block block : Pages.blocks("yaml")) {
            if (block.text().matches("(?s).*(^|\\n)forge:.*")) {
                assertThat(bind(block)).as(block.place()).isNotNull();
                bound++;
            }
        }
        assertThat(bound).isGreaterThan(10);
    }

    @Test
    void block_with_an_unknown_key_is_found() {
        var block = new Pages.Block(Pages.ROOT.resolve("README.md"), 1, "yaml", "forge:\n  cluster:\n    nmae: x\n");
        assertThatExceptionOfType(BindException.class).isThrownBy(() -> bind(block));
    }

    private static ClusterProperties bind(Pages.Block block) throws IOException {
        List<PropertySource<?>> sources = new YamlPropertySourceLoader()
                .load(block.place(), new ByteArrayResource(block.text().getBytes(StandardCharsets.UTF_8)));
        return new Binder(ConfigurationPropertySources.from(sources))
                .bindOrCreate(
                        "forge.cluster",
                        Bindable.of(ClusterProperties.class),
                        new NoUnboundElementsBindHandler(BindHandler.DEFAULT));
    }
}
