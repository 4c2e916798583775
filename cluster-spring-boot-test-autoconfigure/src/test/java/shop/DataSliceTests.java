// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import static dev.forge.cluster.test.ClusterAssertions.assertThat;

import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.test.ClusterPostgres;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.data.jpa.test.autoconfigure.DataJpaTest;
import org.springframework.boot.jdbc.test.autoconfigure.AutoConfigureTestDatabase;
import shop.Mailing.Ship;

/** A slice with a database of its own: the cluster is not part of it, and {@code Jobs} records. */
@DataJpaTest
@AutoConfigureTestDatabase(replace = AutoConfigureTestDatabase.Replace.NONE)
@ClusterPostgres(migrated = false)
class DataSliceTests {

    @Test
    void jobs_are_recorded(@Autowired Jobs jobs) {
        jobs.enqueue(new Ship("ada"));
        assertThat(jobs).enqueued(Ship.class).once();
    }
}
