// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.web;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.audit.AuditTrail;
import dev.forge.cluster.autoconfigure.ClientAddress;
import dev.forge.cluster.autoconfigure.ClusterAutoConfiguration;
import dev.forge.cluster.autoconfigure.ClusterDatabase;
import dev.forge.cluster.autoconfigure.ClusterLifecycle;
import dev.forge.cluster.autoconfigure.NodeRuntime;
import dev.forge.cluster.autoconfigure.OnClusterEnabled;
import dev.forge.cluster.autoconfigure.properties.ClusterProperties;
import dev.forge.cluster.autoconfigure.properties.node.NodeProperties;
import dev.forge.cluster.autoconfigure.properties.value.PropertyRules;
import dev.forge.cluster.autoconfigure.properties.web.WebProperties;
import dev.forge.cluster.autoconfigure.web.HealthAliases.Verdict;
import dev.forge.cluster.internal.database.CallerTransaction;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.JobEngine;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.workflow.WorkflowEngine;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.node.NodeRole;
import java.util.Map;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.actuate.endpoint.annotation.Endpoint;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBooleanProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnWebApplication;
import org.springframework.boot.autoconfigure.condition.NoneNestedConditions;
import org.springframework.boot.availability.ApplicationAvailability;
import org.springframework.boot.availability.ReadinessState;
import org.springframework.boot.health.actuate.endpoint.HealthDescriptor;
import org.springframework.boot.health.actuate.endpoint.HealthEndpoint;
import org.springframework.boot.health.actuate.endpoint.HealthEndpointGroup;
import org.springframework.boot.health.actuate.endpoint.HealthEndpointGroups;
import org.springframework.boot.info.BuildProperties;
import org.springframework.context.ApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Conditional;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.env.Environment;
import org.springframework.util.ClassUtils;
import org.springframework.util.StringUtils;
import org.springframework.web.servlet.function.RouterFunction;
import org.springframework.web.servlet.function.ServerResponse;
import tools.jackson.databind.json.JsonMapper;

/** Configures the submission of jobs over HTTP, if enabled. Access control is left to the application's security. */
@AutoConfiguration(after = ClusterAutoConfiguration.class)
@Conditional(OnClusterEnabled.class)
@ConditionalOnBooleanProperty("forge.cluster.web.enabled")
public final class WebAutoConfiguration {

    private static final Logger log = LoggerFactory.getLogger("dev.forge.cluster");

    /** Returns the path of Spring MVC below the context path. */
    private static String servletPath(Environment environment) {
        return StringUtils.trimTrailingCharacter(environment.getProperty("spring.mvc.servlet.path", ""), '/');
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnWebApplication(type = ConditionalOnWebApplication.Type.SERVLET)
    @ConditionalOnClass({RouterFunction.class, JsonMapper.class})
    static class RoutesConfiguration {

        @Bean
        RouterFunction<ServerResponse> clusterWebRoutes(
                ClusterProperties properties,
                NodeRuntime runtime,
                Jobs jobs,
                JobHandlers handlers,
                JobEngine.Dependencies tools,
                Schema schema,
                ClusterDatabase database,
                AuditTrail trail) {
            WebProperties web = properties.web();
            var submissions = new Submissions(runtime.node(), web, jobs, handlers, tools.codec());
            // Not the application's transactions: their isolation level could make two calls with the same task fail.
            var tasks = new TaskExecution(submissions, new CallerTransaction(database.application()));
            logAccess(properties);
            return new WebRoutes(
                            Math.toIntExact(web.maxRequestSize().toBytes()),
                            new WebJobs(submissions),
                            new JsonRpc(Map.of("tasks.execute", tasks)),
                            new WebRoutes.Operators(
                                    trail,
                                    new ClientAddress(properties.rateLimit().trustedRanges())))
                    .under(web.path());
        }

        @Bean
        MultipartGuard clusterMultipartGuard(ClusterProperties properties, Environment environment) {
            String base = servletPath(environment)
                    + StringUtils.trimTrailingCharacter(properties.web().path(), '/');
            String aliases = servletPath(environment) + "/_api/";
            return new MultipartGuard(path -> path.equals(base)
                    || path.equals(base + "/")
                    || path.startsWith(base + "/jobs")
                    || (properties.web().healthAliases() && path.startsWith(aliases)));
        }

        private static void logAccess(ClusterProperties properties) {
            WebProperties web = properties.web();
            NodeProperties node = properties.node();
            if (!node.roles().contains(NodeRole.GATEWAY)) {
                log.info(
                        "HTTP: {} is not served here, because {} lacks gateway",
                        web.path(),
                        PropertyRules.named("node.roles", node.roles()));
                return;
            }
            if (node.mode() == NodeMode.OBSERVER) {
                log.info(
                        "HTTP: {} shows jobs, but accepts no submissions, because {}",
                        web.path(),
                        PropertyRules.named("node.mode", "observer"));
                return;
            }
            boolean security = ClassUtils.isPresent(
                    "org.springframework.security.web.SecurityFilterChain",
                    WebAutoConfiguration.class.getClassLoader());
            log.info(
                    "HTTP: {} accepts submissions of jobs {} from {}",
                    web.path(),
                    web.jobs(),
                    security
                            ? "all clients that the application's security filter chain permits"
                            : "all clients that can reach it; without Spring Security they share one anonymous principal");
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnWebApplication(type = ConditionalOnWebApplication.Type.SERVLET)
    @ConditionalOnClass({RouterFunction.class, JsonMapper.class})
    @ConditionalOnBooleanProperty(name = "forge.cluster.web.health-aliases", matchIfMissing = true)
    static class AliasesConfiguration {

        @Bean
        RouterFunction<ServerResponse> clusterHealthAliases(
                ClusterProperties properties,
                NodeRuntime runtime,
                JobEngine engine,
                ObjectProvider<ActuatorReadiness> actuator,
                ObjectProvider<ApplicationAvailability> availability,
                ObjectProvider<WorkflowEngine> workflows,
                ObjectProvider<BuildProperties> build) {
            String version = build.stream()
                    .map(BuildProperties::getVersion)
                    .filter(StringUtils::hasText)
                    .findFirst()
                    .orElseGet(ClusterLifecycle::version);
            return WebRoutes.aliases(new HealthAliases(
                    version,
                    () -> actuator.stream()
                            .findFirst()
                            .map(ActuatorReadiness::get)
                            .orElse(null),
                    new HealthAliases.Own(
                            runtime.node(),
                            engine,
                            properties.health().readinessIncludesDatabase(),
                            () -> availability.stream()
                                    .allMatch(state -> state.getReadinessState() == ReadinessState.ACCEPTING_TRAFFIC),
                            () -> workflows.stream().anyMatch(WorkflowEngine::isStranded))));
        }

        // Nodes without the role gateway are probed, too.
        @Bean
        GatewayAutoConfiguration.ActuatorPaths clusterHealthAliasPaths(Environment environment) {
            String servlet = servletPath(environment);
            return GatewayAutoConfiguration.ActuatorPaths.of(
                    Stream.of(HealthAliases.HEALTH, HealthAliases.READY).map(path -> servlet + path));
        }
    }

    /** Returns the result of the readiness group of Actuator; null if there is none. */
    interface ActuatorReadiness extends Supplier<@Nullable Verdict> {}

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass({HealthEndpoint.class, Endpoint.class})
    static class ActuatorConfiguration {

        private static final String READINESS = "readiness";
        private static final int FIRST_BAD_STATUS = 400;

        @Bean
        ActuatorReadiness clusterActuatorReadiness(
                ObjectProvider<HealthEndpoint> endpoint, ObjectProvider<HealthEndpointGroups> groups) {
            return () -> {
                HealthEndpointGroup group = groups.stream()
                        .findFirst()
                        .map(all -> all.get(READINESS))
                        .orElse(null);
                HealthDescriptor health = group == null
                        ? null
                        : endpoint.stream()
                                .findFirst()
                                .map(actuator -> actuator.healthForPath(READINESS))
                                .orElse(null);
                return group == null || health == null
                        ? null
                        : new Verdict(
                                health.getStatus().getCode(),
                                group.getHttpCodeStatusMapper().getStatusCode(health.getStatus()) < FIRST_BAD_STATUS);
            };
        }
    }

    /** Fails the start if a dependency is missing, instead of responding with status 404 to all requests. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnWebApplication(type = ConditionalOnWebApplication.Type.SERVLET)
    static class RequirementsConfiguration {

        RequirementsConfiguration(ApplicationContext context) {
            require(context, "org.springframework.web.servlet.function.RouterFunction", "spring-boot-starter-webmvc");
            require(context, "tools.jackson.databind.json.JsonMapper", "spring-boot-starter-jackson");
        }

        private static void require(ApplicationContext context, String type, String dependency) {
            if (!ClassUtils.isPresent(type, context.getClassLoader())) {
                throw new ClusterStartupException(
                        PropertyRules.named("web.enabled", true) + " needs " + dependency,
                        "Add %s, or set forge.cluster.web.enabled=false.".formatted(dependency));
            }
        }
    }

    /** Only warns, because workers without a web server may share the configuration of nodes with one. */
    @Configuration(proxyBeanMethods = false)
    @Conditional(OnNoServlet.class)
    static class NoServletConfiguration {

        NoServletConfiguration() {
            log.warn(
                    "{} has no effect here: this is not a servlet application, and jobs are submitted through Spring MVC",
                    PropertyRules.named("web.enabled", true));
        }
    }

    static final class OnNoServlet extends NoneNestedConditions {

        OnNoServlet() {
            super(ConfigurationPhase.REGISTER_BEAN);
        }

        @ConditionalOnWebApplication(type = ConditionalOnWebApplication.Type.SERVLET)
        static class Servlet {}
    }
}
