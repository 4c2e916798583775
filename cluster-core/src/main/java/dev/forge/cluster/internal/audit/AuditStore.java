// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.audit;

import dev.forge.cluster.audit.AuditEntry;
import dev.forge.cluster.audit.AuditFilter;
import dev.forge.cluster.audit.AuditSource;
import dev.forge.cluster.internal.audit.Audit.Author;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.internal.runtime.Names;
import java.sql.Types;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.UUID;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.core.simple.JdbcClient;

/** The table {@code forge_audit}. Rows are only inserted and, after the retention, deleted. */
public final class AuditStore {

    /** Three characters less than the columns have: a text that is cut ends with dots. */
    private static final int LONGEST_NAME = 497;

    private static final int LONGEST_ADDRESS = 97;
    private static final int LONGEST_TEXT = 997;

    /** Only a target has an index, so other filters may read many rows. */
    private static final int LIST_SECONDS = 5;

    private final Schema schema;
    private final JdbcClient client;
    private final JdbcClient lists;

    public AuditStore(Schema schema, DataSource source) {
        this.schema = schema;
        this.client = JdbcClient.create(source);
        var limited = new JdbcTemplate(source);
        limited.setQueryTimeout(LIST_SECONDS);
        this.lists = JdbcClient.create(limited);
    }

    /** @param call identifies the call that adds several rows; null: it adds one */
    void insert(Author author, Operation operation, long count, @Nullable UUID call) {
        Object detail = operation.detail();
        client.sql(schema.sql("""
                INSERT INTO ~.forge_audit (who, address, source, action, target, detail, count, reason, call)
                VALUES (:who, :address, :source, :action, :target, :detail, :count, :reason, :call)
                """))
                .param("who", Names.printable(author.operator().name(), LONGEST_NAME))
                .param("address", printable(author.operator().address(), LONGEST_ADDRESS), Types.VARCHAR)
                .param("source", EnumText.hyphenated(author.operator().source()))
                .param("action", operation.action())
                .param("target", Names.printable(String.valueOf(operation.target()), LONGEST_NAME))
                .param("detail", printable(detail == null ? null : detail.toString(), LONGEST_TEXT), Types.VARCHAR)
                .param("count", count)
                .param("reason", printable(author.reason(), LONGEST_TEXT), Types.VARCHAR)
                .param("call", call, Types.OTHER)
                .update();
    }

    private static @Nullable String printable(@Nullable String text, int longest) {
        return text == null ? null : Names.printable(text, longest);
    }

    /** Returns entries, the newest first. */
    List<AuditEntry> list(AuditFilter filter, int limit, @Nullable Long before) {
        AuditSource from = filter.source();
        return lists.sql(schema.sql("""
                SELECT id, at, who, address, source, action, target, detail, count, reason, call FROM ~.forge_audit
                WHERE (:before::bigint IS NULL OR id < :before) AND (:target::text IS NULL OR target = :target)
                  AND (:who::text IS NULL OR who = :who) AND (:action::text IS NULL OR action = :action)
                  AND (:source::text IS NULL OR source = :source)
                ORDER BY id DESC LIMIT :limit
                """))
                .param("before", before, Types.BIGINT)
                .param("target", filter.target(), Types.VARCHAR)
                .param("who", filter.who(), Types.VARCHAR)
                .param("action", filter.action(), Types.VARCHAR)
                .param("source", from == null ? null : EnumText.hyphenated(from), Types.VARCHAR)
                .param("limit", limit)
                .query((row, n) -> new AuditEntry(
                        row.getLong(1),
                        row.getObject(2, OffsetDateTime.class).toInstant(),
                        row.getString(3),
                        row.getString(4),
                        EnumText.parse(AuditSource.class, row.getString(5)),
                        row.getString(6),
                        row.getString(7),
                        row.getString(8),
                        row.getLong(9),
                        row.getString(10),
                        row.getObject(11, UUID.class)))
                .list();
    }

    /**
     * Deletes rows that are older than the retention, up to the limit; returns how many. Deletes none if the role of the node may not:
     * then the owner of the table has to.
     */
    public int purge(Duration retention, int limit) {
        boolean mayDelete = client.sql(schema.sql("""
                SELECT has_table_privilege(c.oid, 'DELETE'::text) FROM pg_catalog.pg_class c
                JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname = ?::name AND c.relname = 'forge_audit'::name
                """))
                .param(schema.name())
                .query(Boolean.class)
                .single();
        // Without FOR UPDATE, which needs the right to update.
        return mayDelete
                ? client.sql(schema.sql("""
                        DELETE FROM ~.forge_audit WHERE id = ANY (ARRAY(
                            SELECT id FROM ~.forge_audit WHERE at < now() - ? * interval '1 millisecond' ORDER BY at LIMIT ?))
                        """))
                        .params(retention.toMillis(), limit)
                        .update()
                : 0;
    }
}
