// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package sample;

import static java.util.stream.Collectors.counting;
import static java.util.stream.Collectors.groupingBy;

import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobName;
import dev.forge.cluster.job.Jobs;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.springframework.http.HttpStatus;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.ResponseStatus;
import org.springframework.web.bind.annotation.RestController;

/** Counts how often items are viewed. */
@RestController
class ItemViews {

    private final JdbcClient jdbc;
    private final Jobs jobs;

    ItemViews(JdbcClient jdbc, Jobs jobs) {
        this.jdbc = jdbc;
        this.jobs = jobs;
    }

    @JobName("count-view")
    record CountView(String item) {}

    @PostMapping("/items/{name}/views")
    @ResponseStatus(HttpStatus.ACCEPTED)
    void viewed(@PathVariable String name) {
        jobs.enqueue(new CountView(name));
    }

    /** Handles up to a hundred jobs in one transaction, so that a popular item is not updated a hundred times. */
    @ClusterJob(name = "count-view", batchSize = 100, batchWait = "100ms")
    @Transactional
    public void count(List<CountView> views) {
        // Sorted by item: nodes that update the same items lock them in the same order and cannot deadlock.
        Map<String, Long> perItem = views.stream().collect(groupingBy(CountView::item, TreeMap::new, counting()));
        perItem.forEach((item, number) -> jdbc.sql("UPDATE items SET views = views + ? WHERE name = ?")
                .params(number, item)
                .update());
    }
}
