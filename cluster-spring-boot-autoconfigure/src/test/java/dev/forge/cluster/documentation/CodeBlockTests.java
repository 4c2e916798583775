// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.documentation;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.source.util.JavacTask;
import java.io.IOException;
import java.io.StringWriter;
import java.net.URI;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import javax.tools.Diagnostic;
import javax.tools.DiagnosticCollector;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileObject;
import javax.tools.SimpleJavaFileObject;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Compiles every Java block of README and guide. The convention:
 *
 * <ul>
 *   <li>A block holds members of a class (types, methods, fields) or statements. Types of the public API, of Spring and of the
 *       JDK are imported, and the beans of the cluster are fields: {@code jobs}, {@code crons}, {@code workflows}.
 *   <li>{@code <!-- java: ... -->} declares members that the blocks of its page use and the reader does not need to see.
 *   <li>{@code { ... }} is a body that is left out.
 * </ul>
 */
class CodeBlockTests {

    private static final Pattern CONTEXT = Pattern.compile("<!-- java:(.*?)-->", Pattern.DOTALL);

    private static final String IMPORTS = """
            import com.zaxxer.hikari.HikariDataSource;
            import dev.forge.cluster.*;
            import dev.forge.cluster.audit.*;
            import dev.forge.cluster.autoconfigure.ConditionalOnClusterRole;
            import dev.forge.cluster.cron.*;
            import dev.forge.cluster.daemon.*;
            import dev.forge.cluster.job.*;
            import dev.forge.cluster.job.observe.*;
            import dev.forge.cluster.job.operations.*;
            import dev.forge.cluster.leader.*;
            import dev.forge.cluster.lock.*;
            import dev.forge.cluster.node.*;
            import dev.forge.cluster.ratelimit.*;
            import dev.forge.cluster.startup.*;
            import dev.forge.cluster.state.*;
            import dev.forge.cluster.test.*;
            import dev.forge.cluster.test.peer.*;
            import dev.forge.cluster.test.postgres.*;
            import dev.forge.cluster.test.process.*;
            import dev.forge.cluster.workflow.*;
            import com.zaxxer.hikari.HikariDataSource;
            import jakarta.persistence.EntityManagerFactory;
            import java.time.*;
            import java.util.*;
            import javax.sql.DataSource;
            import org.junit.jupiter.api.Test;
            import org.springframework.beans.factory.*;
            import org.springframework.beans.factory.annotation.*;
            import org.springframework.boot.test.context.SpringBootTest;
            import org.springframework.boot.context.properties.ConfigurationProperties;
            import org.springframework.boot.jdbc.autoconfigure.DataSourceProperties;
            import org.springframework.context.annotation.*;
            import org.springframework.context.event.EventListener;
            import org.springframework.core.ParameterizedTypeReference;
            import org.springframework.jdbc.core.simple.JdbcClient;
            import org.springframework.jdbc.support.JdbcTransactionManager;
            import org.springframework.orm.jpa.JpaTransactionManager;
            import org.springframework.scheduling.annotation.Scheduled;
            import org.springframework.security.config.Customizer;
            import org.springframework.security.config.annotation.web.builders.HttpSecurity;
            import org.springframework.security.web.SecurityFilterChain;
            import org.springframework.stereotype.*;
            import org.springframework.transaction.annotation.Transactional;
            import org.springframework.web.bind.annotation.*;
            import reactor.core.publisher.*;
            import reactor.core.scheduler.Schedulers;
            """;

    private static final String BEANS = """
            package guide;
            %s
            public abstract class Beans {
                protected Jobs jobs;
                protected JobOperations operations;
                protected Crons crons;
                protected Daemons daemons;
                protected Workflows workflows;
                protected Leadership leadership;
                protected ClusterLocks locks;
                protected ClusterStateStore states;
                protected StartupCoordinator startup;
                protected RateLimiter limiter;
                protected org.slf4j.Logger log;
            }
            """.formatted(IMPORTS);

    private final JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();

    @TempDir
    Path output;

    @Test
    void every_block_compiles() {
        List<Pages.Block> blocks = Pages.blocks("java");
        assertThat(blocks).hasSizeGreaterThan(20);
        assertThat(errors(blocks)).isEmpty();
    }

    @Test
    void block_that_does_not_compile_is_found() {
        Path page = Pages.ROOT.resolve("README.md");
        assertThat(errors(List.of(
                        new Pages.Block(page, 1, "java", "jobs.enqueue(new OrderArgs(UUID.randomUUID()));"),
                        new Pages.Block(page, 2, "java", "jobs.enqueueTwice(null);"),
                        new Pages.Block(page, 3, "java", "@ClusterJob void a() { ... "))))
                .hasSize(2)
                .anyMatch(error -> error.startsWith("README.md:2") && error.contains("enqueueTwice"))
                .anyMatch(error -> error.startsWith("README.md:3"));
    }

    private List<String> errors(List<Pages.Block> blocks) {
        Map<String, String> sources = new LinkedHashMap<>();
        Map<String, Pages.Block> places = new LinkedHashMap<>();
        var errors = new ArrayList<String>();
        sources.put("guide/Beans.java", BEANS);
        for (Pages.Block block : blocks) {
            String page =
                    block.page().getFileName().toString().replaceAll("\\W", "_").toLowerCase(Locale.ROOT);
            String header = "package guide.%s;%n%s".formatted(page, IMPORTS);
            sources.put(
                    "guide/%s/Context.java".formatted(page),
                    "%sabstract class Context extends guide.Beans {%n%s}%n".formatted(header, context(block.page())));
            String name = "Block" + block.line();
            String body = block.text().replace("{ ... }", "{ throw new UnsupportedOperationException(); }");
            String members = "%sclass %s extends Context {%n%s}%n".formatted(header, name, body);
            String statements = "%sclass %s extends Context { void block() throws Exception {%n%s} }%n"
                    .formatted(header, name, body);
            String file = "guide/%s/%s.java".formatted(page, name);
            if (parses(file, members)) {
                sources.put(file, members);
            } else if (parses(file, statements)) {
                sources.put(file, statements);
            } else {
                errors.add(block.place() + ": neither members of a class nor statements");
            }
            places.put(file, block);
        }
        for (Diagnostic<? extends JavaFileObject> problem : compile(sources)) {
            String file = problem.getSource() == null
                    ? "?"
                    : problem.getSource().toUri().getPath().substring(1);
            Pages.Block block = places.get(file);
            errors.add("%s: %s".formatted(block == null ? file : block.place(), problem.getMessage(Locale.ROOT)));
        }
        return errors;
    }

    private static String context(Path page) {
        return CONTEXT.matcher(Pages.text(page))
                .results()
                .map(match -> match.group(1))
                .collect(Collectors.joining("\n"));
    }

    private boolean parses(String file, String source) {
        var problems = new DiagnosticCollector<JavaFileObject>();
        var task = (JavacTask)
                compiler.getTask(null, null, problems, List.of("-proc:none"), null, List.of(new Source(file, source)));
        try {
            task.parse();
        } catch (IOException e) {
            throw new AssertionError(e);
        }
        return problems.getDiagnostics().stream().noneMatch(problem -> problem.getKind() == Diagnostic.Kind.ERROR);
    }

    private List<Diagnostic<? extends JavaFileObject>> compile(Map<String, String> sources) {
        var problems = new DiagnosticCollector<JavaFileObject>();
        // Surefire moves the class path to the manifest of a jar, and sets a property to the original.
        String classPath = System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
        List<Source> units = sources.entrySet().stream()
                .map(source -> new Source(source.getKey(), source.getValue()))
                .toList();
        compiler.getTask(
                        new StringWriter(),
                        null,
                        problems,
                        List.of("-proc:none", "-Xlint:none", "-cp", classPath, "-d", output.toString()),
                        null,
                        units)
                .call();
        return problems.getDiagnostics().stream()
                .filter(problem -> problem.getKind() == Diagnostic.Kind.ERROR)
                .toList();
    }

    private static final class Source extends SimpleJavaFileObject {

        private final String text;

        Source(String file, String text) {
            super(URI.create("string:///" + file), Kind.SOURCE);
            this.text = text;
        }

        @Override
        public CharSequence getCharContent(boolean ignoreEncodingErrors) {
            return text;
        }
    }
}
