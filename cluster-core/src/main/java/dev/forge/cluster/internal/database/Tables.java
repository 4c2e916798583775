// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import java.sql.PreparedStatement;
import java.util.List;
import javax.sql.DataSource;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.core.PreparedStatementCreator;
import org.springframework.jdbc.core.PreparedStatementSetter;
import org.springframework.jdbc.core.RowCallbackHandler;
import org.springframework.jdbc.core.RowMapper;
import org.springframework.jdbc.core.simple.JdbcClient;

/** The tables of a cluster, by one data source. In statements, {@code ~.} stands for their schema. */
public final class Tables {

    private final Schema schema;
    private final JdbcTemplate jdbc;
    private final JdbcClient client;

    public Tables(Schema schema, DataSource source) {
        this.schema = schema;
        this.jdbc = new JdbcTemplate(source);
        this.client = JdbcClient.create(jdbc);
    }

    /** Returns a statement whose parameters are still to be bound. */
    public JdbcClient.StatementSpec sql(String sql) {
        return client.sql(schema.sql(sql));
    }

    /** Executes a statement; returns how many rows it has changed. */
    public int update(String sql, PreparedStatementSetter parameters) {
        return jdbc.update(schema.sql(sql), parameters);
    }

    /** Executes a statement that returns rows. */
    public <T> List<T> query(String sql, PreparedStatementSetter parameters, RowMapper<T> mapper) {
        return jdbc.query(creator(sql, parameters), mapper);
    }

    /** Executes a statement that returns rows. */
    public void query(String sql, PreparedStatementSetter parameters, RowCallbackHandler handler) {
        jdbc.query(creator(sql, parameters), handler);
    }

    /** An exception does not contain the text of such a statement: some are long, and claims fail as long as the server is down. */
    private PreparedStatementCreator creator(String sql, PreparedStatementSetter parameters) {
        return connection -> {
            PreparedStatement statement = connection.prepareStatement(schema.sql(sql));
            parameters.setValues(statement);
            return statement;
        };
    }

    /** Returns a statement as the server receives it. */
    public String complete(String sql) {
        return schema.sql(sql);
    }

    public JdbcTemplate jdbc() {
        return jdbc;
    }
}
