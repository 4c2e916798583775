// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.postgres;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.List;
import org.junit.jupiter.api.Test;

class PostgresServerTests {

    @Test
    void messages_about_the_server_have_no_credentials() {
        for (String url : List.of(
                "postgres://ada:geheim@host/db",
                "jdbc:mysql://host/db?user=ada&password=geheim",
                "jdbc:postgresql://ada:geheim@host:port/db?password=geheim",
                "geheim")) {
            assertThatThrownBy(() -> new PostgresServer(PostgresServer.URL_VARIABLE, url, null, null))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining(PostgresServer.URL_VARIABLE)
                    .hasMessageNotContaining("geheim");
        }
        assertThat(PostgresServer.masked("jdbc:postgresql://host:1/db?sslmode=require&sslpassword=geheim&sslcert=/a"))
                .isEqualTo("jdbc:postgresql://host:1/db?sslmode=require&sslpassword=***&sslcert=/a");
    }
}
