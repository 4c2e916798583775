package dev.forge.cluster.test;

import java.util.List;
import javax.sql.DataSource;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

/** One database on the {@linkplain PostgresServer test server}. Dropped when closed. */
public final class TestDatabase implements AutoCloseable {

    private final PostgresServer server;
    private final String name;
    private final String url;
    private final DataSource dataSource;

    TestDatabase(PostgresServer server, String name, String url) {
        this.server = server;
        this.name = name;
        this.url = url;
        this.dataSource = new DriverManagerDataSource(url, server.username(), server.password());
    }

    /** The database's name. */
    public String name() {
        return name;
    }

    /** Without user and password. */
    public String url() {
        return url;
    }

    /** A role that may do anything here. */
    public String username() {
        return server.username();
    }

    /** The password of {@link #username()}. */
    public String password() {
        return server.password();
    }

    /** Opens a new connection at each use, and leaves none open. */
    public DataSource dataSource() {
        return dataSource;
    }

    /** Statements on connections that are closed after each. */
    public JdbcClient jdbc() {
        return JdbcClient.create(dataSource);
    }

    /** Every session that is open on this database now, one line each. */
    public List<String> sessions() {
        return server.sessions(name);
    }

    @Override
    public void close() {
        server.drop(name);
    }
}
