// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package sample;

import io.zonky.test.db.postgres.embedded.EmbeddedPostgres;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.jdbc.autoconfigure.JdbcConnectionDetails;
import org.springframework.boot.web.server.context.WebServerInitializedEvent;
import org.springframework.context.event.EventListener;
import org.springframework.stereotype.Component;

/** Prints the command that starts a second instance on the same database. */
@Component
class SecondInstance {

    private final ObjectProvider<EmbeddedPostgres> embedded;
    private final ObjectProvider<JdbcConnectionDetails> connection;

    SecondInstance(ObjectProvider<EmbeddedPostgres> embedded, ObjectProvider<JdbcConnectionDetails> connection) {
        this.embedded = embedded;
        this.connection = connection;
    }

    @EventListener
    void announce(WebServerInitializedEvent event) {
        if (event.getApplicationContext().getServerNamespace() != null) {
            return; // The event is from the management server on a separate port.
        }
        int port = event.getWebServer().getPort();
        System.out.printf("""

                  Orders:     http://localhost:%d/orders
                  Dashboard:  http://localhost:%d/forge/dashboard/ (user admin, password admin)
                  Health:     http://localhost:%d/actuator/health

                  %s
                %s

                """, port, port, port, hint(), command());
    }

    private String hint() {
        return embedded.getIfAvailable() == null
                ? "Start a second node with the same SPRING_DATASOURCE_* variables:"
                : "Start a second node (stop this one last, because the database stops with it):";
    }

    private String command() {
        String run = System.getenv().getOrDefault("SAMPLE_RUN_COMMAND", thisJar());
        return embedded.getIfAvailable() == null
                ? run
                : "SPRING_DATASOURCE_URL='%s' %s"
                        .formatted(connection.getObject().getJdbcUrl(), run);
    }

    private static String thisJar() {
        String classPath = System.getProperty("java.class.path");
        return classPath.endsWith(".jar") && !classPath.contains(System.getProperty("path.separator"))
                ? "java -jar " + classPath
                : "java -cp '%s' %s".formatted(classPath, SampleApplication.class.getName());
    }
}
