// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.actuate;

import java.util.Set;
import org.springframework.boot.actuate.endpoint.Show;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * Settings of the endpoint.
 *
 * @param showValues When to show values of the application: payloads, inputs, results, errors, metadata, unique keys, groups, notes,
 *     lock names and keys of rate limits. A hidden object is masked as a whole, with the names of its members.
 * @param roles Roles that may see values when show-values is when-authorized. A user needs one of them. When empty, all
 *     authenticated users may.
 */
@ConfigurationProperties("management.endpoint.forgecluster")
public record ClusterEndpointProperties(
        @DefaultValue("never") Show showValues,
        @DefaultValue Set<String> roles) {}
