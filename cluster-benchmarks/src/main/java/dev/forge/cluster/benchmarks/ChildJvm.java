// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.net.URISyntaxException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** Another JVM with the classes of this one. It uses the same server. Closing kills it. */
final class ChildJvm implements AutoCloseable {

    private final Process process;
    private final BufferedReader output;

    private ChildJvm(Process process) {
        this.process = process;
        this.output = process.inputReader(StandardCharsets.UTF_8);
    }

    /** Runs a main class, whose first argument is the port of the server. */
    static ChildJvm start(Class<?> main, Server server, String... arguments) throws IOException {
        var command = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-cp",
                classPath(),
                main.getName(),
                String.valueOf(server.port())));
        command.addAll(List.of(arguments));
        return new ChildJvm(new ProcessBuilder(command)
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start());
    }

    /** Returns the class path. Maven runs the benchmarks in its own JVM, with a class loader of its own. */
    private static String classPath() {
        if (!(ChildJvm.class.getClassLoader() instanceof URLClassLoader loader)) {
            return System.getProperty("java.class.path");
        }
        var entries = new ArrayList<String>();
        for (URL url : loader.getURLs()) {
            try {
                entries.add(Path.of(url.toURI()).toString());
            } catch (URISyntaxException e) {
                throw new IllegalStateException("Unusable class path entry: " + url, e);
            }
        }
        return String.join(File.pathSeparator, entries);
    }

    /** Waits for the next line of its output. */
    String nextLine() throws IOException {
        String line = output.readLine();
        if (line == null) {
            throw new IllegalStateException("The other JVM has ended");
        }
        return line;
    }

    /** Kills it as {@code kill -9} does; returns when it is gone. */
    @Override
    public void close() {
        try {
            process.destroyForcibly().waitFor();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
