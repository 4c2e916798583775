package sample;

import io.zonky.test.db.postgres.embedded.EmbeddedPostgres;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.jdbc.autoconfigure.JdbcConnectionDetails;
import org.springframework.boot.web.server.context.WebServerInitializedEvent;
import org.springframework.context.event.EventListener;
import org.springframework.stereotype.Component;

/** Tells how to start one more instance on the same database. */
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
            return; // the management server, if it has one of its own
        }
        System.out.printf(
                """

                  Orders:         http://localhost:%d/orders
                  Health:         http://localhost:%d/actuator/health
                  Second node:    %s

                """, event.getWebServer().getPort(), event.getWebServer().getPort(), command());
    }

    private String command() {
        String run = System.getenv().getOrDefault("SAMPLE_RUN_COMMAND", thisJar());
        return embedded.getIfAvailable() == null
                ? run + "    (with the same SPRING_DATASOURCE_* variables)"
                : "SPRING_DATASOURCE_URL='%s' %s    (stop this node last: the database ends with it)"
                        .formatted(connection.getObject().getJdbcUrl(), run);
    }

    private static String thisJar() {
        String classPath = System.getProperty("java.class.path");
        return classPath.endsWith(".jar") && !classPath.contains(System.getProperty("path.separator"))
                ? "java -jar " + classPath
                : "java -cp '%s' %s".formatted(classPath, SampleApplication.class.getName());
    }
}
