/**
 * Properties of the web, of operators and their tools: HTTP API, dashboard, logins, rate limits, health and the audit trail.
 * {@link dev.forge.cluster.autoconfigure.properties.ClusterProperties} contains all of them.
 */
@NullMarked
package dev.forge.cluster.autoconfigure.properties.web;

import org.jspecify.annotations.NullMarked;
