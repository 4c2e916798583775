// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.web;

import dev.forge.cluster.autoconfigure.web.Submissions.Submission;
import dev.forge.cluster.internal.database.CallerTransaction;
import dev.forge.cluster.job.JobOptions;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * {@code tasks.execute}: enqueues a job for each task, all in one transaction. The id of a task is the key of its job among the jobs of
 * the client, so a call whose response was lost can be repeated while the jobs are unfinished.
 */
final class TaskExecution implements JsonRpc.Method {

    static final int MOST_TASKS = 100;

    private final Submissions submissions;
    private final CallerTransaction transaction;

    private record Task(int index, @Nullable String id, Submission submission) {

        String lock() {
            return submission.name() + '\0' + (id == null ? "" : id);
        }
    }

    TaskExecution(Submissions submissions, CallerTransaction transaction) {
        this.submissions = submissions;
        this.transaction = transaction;
    }

    @Override
    public Object call(@Nullable Object params, Submitter client) {
        JsonFields members = JsonFields.of(params, "params", Set.of("tasks"));
        if (!(members.value("tasks") instanceof List<?> list) || list.isEmpty() || list.size() > MOST_TASKS) {
            throw Refusal.malformed("tasks must be an array of 1 to %d tasks".formatted(MOST_TASKS));
        }
        List<Task> tasks = new ArrayList<>();
        Set<String> ids = new HashSet<>();
        for (int i = 0; i < list.size(); i++) {
            tasks.add(task(i, list.get(i), ids, client));
        }
        List<UUID> jobs = enqueue(tasks);
        List<Map<String, Object>> answers = new ArrayList<>();
        for (Task task : tasks) {
            var answer = new LinkedHashMap<String, Object>();
            if (task.id != null) {
                answer.put("id", task.id);
            }
            answer.put("jobId", jobs.get(task.index));
            answers.add(answer);
        }
        return Map.of("tasks", answers);
    }

    private Task task(int index, @Nullable Object json, Set<String> ids, Submitter client) {
        try {
            JsonFields members = JsonFields.of(json, "a task", Set.of("id", "name", "inputs"));
            String id = members.text("id", Submissions.LONGEST_KEY);
            if (id != null && !ids.add(id)) {
                throw Refusal.malformed("two tasks have this id");
            }
            String name = members.requiredText("name", Submissions.LONGEST_NAME);
            var submission = new Submission(client, name, members.value("inputs"), id, JobOptions.defaults());
            submissions.check(submission);
            return new Task(index, id, submission);
        } catch (Refusal e) {
            throw e.at(index, json instanceof Map<?, ?> task && task.get("id") instanceof String id ? id : null);
        }
    }

    private List<UUID> enqueue(List<Task> tasks) {
        // Sorted by key, so that two calls with common keys cannot deadlock.
        List<Task> ordered =
                tasks.stream().sorted(Comparator.comparing(Task::lock)).toList();
        var jobs = new UUID[tasks.size()];
        transaction.inOne(() -> {
            for (Task task : ordered) {
                try {
                    jobs[task.index] = submissions.enqueue(task.submission).id();
                } catch (RuntimeException e) {
                    throw Refusal.of(e).at(task.index, task.id);
                }
            }
        });
        return List.of(jobs);
    }
}
