// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import static dev.forge.cluster.test.ClusterAssertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.lock.ClusterLocks;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.webmvc.test.autoconfigure.WebMvcTest;
import org.springframework.test.web.servlet.assertj.MockMvcTester;
import shop.Mailing.SendMail;
import shop.Mailing.Ship;

/** A slice of Spring Boot in an application with the starter: no database, and {@code Jobs} records. */
@WebMvcTest
class OtherSliceTests {

    @Autowired
    private MockMvcTester mvc;

    @Autowired
    private Jobs jobs;

    @RepeatedTest(2)
    void controller_enqueues() {
        mvc.post().uri("/orders").param("customer", "ada").assertThat().hasStatusOk();
        assertThat(jobs).enqueued(Ship.class).withPayload(new Ship("ada")).once();
        assertThat(jobs).neverEnqueued(SendMail.class);
    }

    @Test
    void name_is_no_proof_without_handlers() {
        jobs.enqueueNamed("parcel", new Ship("ada"));
        assertThat(jobs).neverEnqueuedNamed("ship");
        assertThatThrownBy(() -> assertThat(jobs).neverEnqueuedNamed("parcel")).hasMessageContaining("found");
        jobs.enqueue(new Ship("eve"));
        assertThatThrownBy(() -> assertThat(jobs).neverEnqueuedNamed("ship"))
                .isInstanceOf(AssertionError.class)
                .hasMessageContainingAll("shop.Mailing$Ship", "class of the payload");
    }

    @Test
    void other_beans_say_what_to_do(@Autowired ClusterLocks locks) {
        assertThatThrownBy(() -> locks.tryLock("stock")).hasMessageContaining("Use @ClusterTest");
    }
}
