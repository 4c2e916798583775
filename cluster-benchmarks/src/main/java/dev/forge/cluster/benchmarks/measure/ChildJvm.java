// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks.measure;

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

/** A child JVM with the class path of this one, which uses the same server. Closing it kills the process. */
public final class ChildJvm implements AutoCloseable {

    private final Process process;
    private final BufferedReader output;

    private ChildJvm(Process process) {
        this.process = process;
        this.output = process.inputReader(StandardCharsets.UTF_8);
    }

    /** Starts a JVM that runs a main class. The first argument of the main class is the port of the server. */
    public static ChildJvm start(Class<?> main, Server server, String... arguments) throws IOException {
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

    /** Returns the class path. Maven runs the benchmarks inside its own JVM, with a separate class loader. */
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

    /** Waits for the next line of the output; fails if the JVM has ended. */
    public String nextLine() throws IOException {
        String line = output.readLine();
        if (line == null) {
            throw new IllegalStateException("The child JVM ended without printing another line");
        }
        return line;
    }

    /** Kills the JVM like {@code kill -9} and waits until the process has ended. */
    @Override
    public void close() {
        try {
            process.destroyForcibly().waitFor();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
