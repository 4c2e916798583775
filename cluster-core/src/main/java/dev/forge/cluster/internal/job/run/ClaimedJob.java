// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.run;

import dev.forge.cluster.internal.job.handler.Claim;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.row.ClaimKey;
import dev.forge.cluster.internal.job.row.JobBatchStore;
import dev.forge.cluster.internal.job.row.JobClaimStore.Claimed;
import dev.forge.cluster.internal.runtime.PayloadJson;
import java.lang.reflect.Type;
import java.time.Instant;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/** What is known of a claimed job from its row and its handler; it does not change during the attempt. */
abstract class ClaimedJob implements Claim {

    /** The node that holds the job, by the id of its membership at the claim. */
    record Holder(UUID id, String name) {}

    private final Claimed claimed;
    private final ClaimKey key;
    private final Holder holder;
    private final JobHandler handler;
    private final JobHandler.Limits limits;
    private final PayloadJson json;

    ClaimedJob(Claimed claimed, Holder holder, JobHandler handler, PayloadJson json) {
        this.claimed = claimed;
        this.key = claimed.key();
        this.holder = holder;
        this.handler = handler;
        this.json = json;
        this.limits = limits(claimed, handler, json);
    }

    private static JobHandler.Limits limits(Claimed claimed, JobHandler handler, PayloadJson json) {
        // The common case does not parse the metadata.
        if (!claimed.metadata().contains("\"forge.")) {
            return handler.limits();
        }
        try {
            return handler.limits().overriddenBy(json.readTexts(claimed.metadata()));
        } catch (RuntimeException e) {
            // Written by SQL for a codec that cannot read it: other jobs of the claim must not suffer.
            return handler.limits();
        }
    }

    @Override
    public Claimed claimed() {
        return claimed;
    }

    ClaimKey key() {
        return key;
    }

    @Override
    public UUID node() {
        return holder.id;
    }

    JobHandler handler() {
        return handler;
    }

    /** Returns the limits of the handler, with those that the job has of its own. */
    JobHandler.Limits limits() {
        return limits;
    }

    @Override
    public UUID id() {
        return claimed.id();
    }

    @Override
    public String name() {
        return claimed.name();
    }

    @Override
    public int attempt() {
        return claimed.attempt();
    }

    @Override
    public int maxAttempts() {
        Integer own = claimed.maxAttempts();
        return own != null ? own : limits.maxAttempts();
    }

    @Override
    public long epoch() {
        return claimed.epoch();
    }

    @Override
    public Instant scheduledAt() {
        return claimed.scheduledAt();
    }

    @Override
    public String nodeName() {
        return holder.name;
    }

    @Override
    public @Nullable String group() {
        return claimed.group();
    }

    @Override
    public @Nullable UUID batch() {
        UUID batch = claimed.batch();
        String callbackOf = batch == null ? metadata().get(JobBatchStore.CALLBACK_KEY) : null;
        return callbackOf == null ? batch : UUID.fromString(callbackOf);
    }

    @Override
    public Map<String, String> metadata() {
        return json.readTexts(claimed.metadata());
    }

    @Override
    public <T> Optional<T> payload(Type type) {
        String text = claimed.payload();
        return text.equals("{}") ? Optional.empty() : Optional.ofNullable(json.readAs(text, type));
    }
}
