// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.job.JobBatch;
import dev.forge.cluster.job.JobBatchOptions;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import java.util.UUID;
import org.junit.jupiter.api.Test;

/** What the pages of batches show of jobs that were not counted, and of batches that run again. */
class DashboardBatchTests extends DashboardPages {

    /** Returns the text of the cell below a title, in the row of a batch. */
    private String cell(UUID batch, String title) {
        return browser.run("""
                        const titles = [...document.querySelectorAll('main thead th')].map((each) => each.innerText.trim());
                        const row = [...document.querySelectorAll('main tbody tr')].find((each) => each.innerHTML.includes(arguments[0]));
                        return row.children[titles.indexOf(arguments[1])].innerText.trim();
                        """, batch.toString(), title).asString();
    }

    /** Adds a batch with that many pending jobs that no node runs. */
    private UUID pendingBatch(int jobs) {
        UUID batch = this.jobs.batch(JobBatchOptions.named("many")).id();
        jdbc.sql("""
                        INSERT INTO forge_jobs (id, name, batch_id, scheduled_at)
                        SELECT gen_random_uuid(), 'waits', ?, now() + interval '1 day' FROM generate_series(1, ?)
                        """).params(batch, jobs).update();
        jdbc.sql("INSERT INTO forge_job_batch_parts (batch_id, jobs) VALUES (?, ?)")
                .params(batch, jobs)
                .update();
        return batch;
    }

    @Test
    void progress_of_a_batch_is_unknown_if_not_all_jobs_are_counted() {
        UUID large = pendingBatch(3_000);
        UUID small = pendingBatch(10);
        open("?page=batches");
        assertThat(cell(large, "Progress")).isEqualTo("–");
        assertThat(cell(large, "Completed")).isEqualTo("–");
        assertThat(cell(large, "Remaining")).isEqualTo("1,000+");
        assertThat(cell(small, "Progress")).isEqualTo("0 %");
        assertThat(cell(small, "Remaining")).isEqualTo("10");
        open("?page=batches&id=" + large);
        assertThat(text()).contains("0 of 3,000 jobs have ended");
        assertCleanConsole();
    }

    @Test
    void batch_that_runs_again_has_not_ended() {
        JobBatch batch = jobs.batch(JobBatchOptions.named("again"));
        UUID job = jobs.enqueueNamed("call-bank", null, JobOptions.defaults().withBatch(batch.id()))
                .id();
        batch.close();
        awaitStatus(job, JobStatus.FAILED);
        open("?page=batches&id=" + batch.id());
        browser.await("document.querySelector('main').innerText.includes('Took')");
        jdbc.sql("""
                        UPDATE forge_jobs SET status = 'pending', finished_at = NULL, scheduled_at = now() + interval '1 day' WHERE id = ?
                        """).param(job).update();
        open("?page=batches&id=" + batch.id());
        browser.await("document.querySelector('h1 .badge').innerText === 'running'");
        assertThat(text()).doesNotContain("Took");
    }
}
