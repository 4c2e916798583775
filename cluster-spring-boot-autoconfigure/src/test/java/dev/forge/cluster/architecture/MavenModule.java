// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.architecture;

import java.io.StringReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import javax.xml.parsers.DocumentBuilderFactory;
import org.w3c.dom.Element;
import org.w3c.dom.Node;
import org.xml.sax.InputSource;

/** The declarations of one {@code pom.xml} as they are written: nothing is inherited or resolved. */
record MavenModule(Element project) {

    static MavenModule read(Path pom) throws Exception {
        return parse(Files.readString(pom));
    }

    static MavenModule parse(String pom) throws Exception {
        return new MavenModule(DocumentBuilderFactory.newInstance()
                .newDocumentBuilder()
                .parse(new InputSource(new StringReader(pom)))
                .getDocumentElement());
    }

    /** Returns the trimmed text at a path of element names, or an empty text. */
    String text(String... path) {
        return text(project, path);
    }

    List<String> modules() {
        return elements(project, "modules", "module").stream()
                .map(module -> module.getTextContent().trim())
                .toList();
    }

    Map<String, String> properties() {
        Map<String, String> properties = new TreeMap<>();
        for (Element property : elements(project, "properties", "*")) {
            properties.put(property.getTagName(), property.getTextContent().trim());
        }
        return properties;
    }

    /** Returns the dependencies by scope; optional ones and annotation processors count as scopes of their own. */
    Dependencies dependencies() {
        var dependencies = new Dependencies();
        for (Element dependency : elements(project, "dependencies", "dependency")) {
            String scope = text(dependency, "scope");
            boolean optional = text(dependency, "optional").equals("true");
            dependencies.add(optional ? "optional" : scope.isEmpty() ? "compile" : scope, coordinates(dependency));
        }
        for (Element plugin : elements(project, "build", "plugins", "plugin")) {
            for (Element path : elements(plugin, "configuration", "annotationProcessorPaths", "path")) {
                dependencies.add("processor", coordinates(path));
            }
        }
        return dependencies;
    }

    /** Returns the version of each managed dependency that is not an imported BOM. */
    Map<String, String> managedVersions() {
        return managed(false);
    }

    /** Returns the version of each imported BOM. */
    Map<String, String> importedBoms() {
        return managed(true);
    }

    private Map<String, String> managed(boolean imported) {
        Map<String, String> versions = new TreeMap<>();
        for (Element dependency : elements(project, "dependencyManagement", "dependencies", "dependency")) {
            if (text(dependency, "scope").equals("import") == imported) {
                versions.put(coordinates(dependency), text(dependency, "version"));
            }
        }
        return versions;
    }

    private static String coordinates(Element dependency) {
        return text(dependency, "groupId") + ":" + text(dependency, "artifactId");
    }

    private static String text(Element parent, String... path) {
        List<Element> found = elements(parent, path);
        return found.isEmpty() ? "" : found.get(0).getTextContent().trim();
    }

    private static List<Element> elements(Element parent, String... path) {
        List<Element> found = List.of(parent);
        for (String name : path) {
            List<Element> next = new ArrayList<>();
            for (Element element : found) {
                for (Node child = element.getFirstChild(); child != null; child = child.getNextSibling()) {
                    if (child instanceof Element candidate
                            && (name.equals("*") || candidate.getTagName().equals(name))) {
                        next.add(candidate);
                    }
                }
            }
            found = next;
        }
        return found;
    }
}
