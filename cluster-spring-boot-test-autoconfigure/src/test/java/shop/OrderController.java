// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import dev.forge.cluster.job.Jobs;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.RestController;

/** A controller, which is not part of a slice of the cluster. */
@RestController
class OrderController {

    private final Jobs jobs;

    OrderController(Jobs jobs) {
        this.jobs = jobs;
    }

    @PostMapping("/orders")
    String order(@RequestParam String customer) {
        return jobs.enqueue(new Mailing.Ship(customer)).id().toString();
    }
}
