// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.wakeup;

import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import org.springframework.data.redis.connection.RedisConnectionFactory;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.jedis.JedisConnectionFactory;

@ClusterPostgres
class JedisWakeupTests extends RedisWakeupTests {

    JedisWakeupTests(TestDatabase database) {
        super(database);
    }

    @Override
    RedisConnectionFactory factory() {
        return new JedisConnectionFactory(new RedisStandaloneConfiguration("127.0.0.1", port));
    }
}
