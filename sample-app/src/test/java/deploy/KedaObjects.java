// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package deploy;

import java.util.List;
import java.util.Map;

/** The fields of KEDA's objects that are in use, as KEDA 2.12 defines them; any other field is an error. */
final class KedaObjects {

    private KedaObjects() {}

    record Metadata(String name, Map<String, String> labels) {}

    record Reference(String name) {}

    record V1TriggerAuthentication(String apiVersion, String kind, Metadata metadata, AuthenticationSpec spec) {}

    record AuthenticationSpec(List<SecretTarget> secretTargetRef) {}

    record SecretTarget(String parameter, String name, String key) {}

    record V1ScaledObject(String apiVersion, String kind, Metadata metadata, ScaledSpec spec) {}

    record ScaledSpec(
            Reference scaleTargetRef,
            int minReplicaCount,
            int maxReplicaCount,
            int pollingInterval,
            Fallback fallback,
            Advanced advanced,
            List<Trigger> triggers) {}

    record Fallback(int failureThreshold, int replicas) {}

    record Advanced(AutoscalerConfig horizontalPodAutoscalerConfig) {}

    record AutoscalerConfig(Behavior behavior) {}

    record Behavior(Rules scaleDown) {}

    /** The rules of an autoscaler of Kubernetes. */
    record Rules(int stabilizationWindowSeconds, List<Policy> policies) {}

    record Policy(String type, int value, int periodSeconds) {}

    /** KEDA takes all metadata of a trigger as text. */
    record Trigger(String type, String metricType, Map<String, String> metadata, Reference authenticationRef) {}
}
