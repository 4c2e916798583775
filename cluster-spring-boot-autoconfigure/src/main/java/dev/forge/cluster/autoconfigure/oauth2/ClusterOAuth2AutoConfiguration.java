// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.oauth2;

import dev.forge.cluster.autoconfigure.ClientAddress;
import dev.forge.cluster.autoconfigure.ClusterAutoConfiguration;
import dev.forge.cluster.autoconfigure.ClusterDatabase;
import dev.forge.cluster.autoconfigure.JacksonPayloadCodec;
import dev.forge.cluster.autoconfigure.NodeRuntime;
import dev.forge.cluster.autoconfigure.OnClusterEnabled;
import dev.forge.cluster.autoconfigure.properties.ClusterProperties;
import dev.forge.cluster.autoconfigure.properties.value.PropertyRules;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.state.DefaultClusterStateStore;
import dev.forge.cluster.internal.state.StateStore;
import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.MeterRegistry;
import jakarta.servlet.Filter;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBooleanProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnWebApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Conditional;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.Ordered;
import org.springframework.core.annotation.Order;
import org.springframework.http.HttpHeaders;
import org.springframework.http.HttpStatus;
import org.springframework.security.config.Customizer;
import org.springframework.security.config.ObjectPostProcessor;
import org.springframework.security.config.annotation.web.builders.HttpSecurity;
import org.springframework.security.config.annotation.web.configurers.AbstractHttpConfigurer;
import org.springframework.security.config.annotation.web.configurers.oauth2.client.OAuth2ClientConfigurer;
import org.springframework.security.config.annotation.web.configurers.oauth2.client.OAuth2LoginConfigurer;
import org.springframework.security.jackson.SecurityJacksonModules;
import org.springframework.security.oauth2.client.web.AuthorizationRequestRepository;
import org.springframework.security.oauth2.client.web.OAuth2AuthorizationRequestRedirectFilter;
import org.springframework.security.oauth2.core.endpoint.OAuth2AuthorizationRequest;
import tools.jackson.databind.json.JsonMapper;

/**
 * Lets an OAuth2 login that began on one node be completed on any other. Backs off if the application defines an {@link
 * AuthorizationRequestRepository}.
 */
@AutoConfiguration(
        after = ClusterAutoConfiguration.class,
        afterName = "org.springframework.boot.micrometer.metrics.autoconfigure.CompositeMeterRegistryAutoConfiguration")
@ConditionalOnClass({
    Filter.class,
    HttpSecurity.class,
    AuthorizationRequestRepository.class,
    SecurityJacksonModules.class,
    JsonMapper.class
})
@ConditionalOnWebApplication(type = ConditionalOnWebApplication.Type.SERVLET)
@ConditionalOnBooleanProperty(name = "forge.cluster.oauth2.enabled", matchIfMissing = true)
@ConditionalOnMissingBean(AuthorizationRequestRepository.class)
@Conditional(OnClusterEnabled.class)
public final class ClusterOAuth2AutoConfiguration {

    // Uses the table and not the bean: every node that serves requests handles logins, an observer, too, and only the
    // mapper of Spring Security knows how to write such a request and which types may be read.
    @Bean
    AuthorizationRequestRepository<OAuth2AuthorizationRequest> clusterAuthorizationRequests(
            ClusterDatabase database,
            Schema schema,
            NodeRuntime runtime,
            ClusterProperties properties,
            ObjectProvider<LoginAdmission.Monitor> monitors) {
        JsonMapper mapper = JsonMapper.builder()
                .addModules(SecurityJacksonModules.getModules(ClusterOAuth2AutoConfiguration.class.getClassLoader()))
                .build();
        return new SharedAuthorizationRequests(
                DefaultClusterStateStore.ofAnyNode(
                        new StateStore(
                                schema,
                                database.application(),
                                runtime.control().shared()),
                        new JacksonPayloadCodec(mapper),
                        Math.toIntExact(properties.job().maxPayloadSize().toBytes())),
                properties.oauth2().ttl(),
                new LoginAdmission(
                        properties.oauth2(),
                        new ClientAddress(properties.rateLimit().trustedRanges()),
                        reason -> monitors.forEach(monitor -> monitor.refused(reason)),
                        System::nanoTime));
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(MeterRegistry.class)
    @ConditionalOnBean(MeterRegistry.class)
    static class MeterConfiguration {

        @Bean
        LoginAdmission.Monitor clusterLoginMeters(MeterRegistry registry, ClusterAutoConfiguration.ClusterName name) {
            return reason -> Counter.builder("forge.cluster.oauth2.rejections")
                    .description(
                            "Logins that were refused on this node: full (too many are pending) or rate (too many from one"
                                    + " address)")
                    .tag("cluster", name.text())
                    .tag("reason", reason)
                    .register(registry)
                    .increment();
        }
    }

    /** Sets the repository in each filter chain, because Spring Security does not look for such a bean. */
    @Bean
    Customizer<HttpSecurity> clusterAuthorizationRequestsCustomizer(
            AuthorizationRequestRepository<OAuth2AuthorizationRequest> requests) {
        return http -> http.with(new SharedLogins(requests));
    }

    /**
     * Runs after every configurer has been initialized, because one may add another, and before the login configurers build their
     * filters: it is the first of the chain.
     */
    private static final class SharedLogins extends AbstractHttpConfigurer<SharedLogins, HttpSecurity> {

        private final AuthorizationRequestRepository<OAuth2AuthorizationRequest> requests;

        SharedLogins(AuthorizationRequestRepository<OAuth2AuthorizationRequest> requests) {
            this.requests = requests;
        }

        @Override
        @SuppressWarnings("unchecked")
        public void configure(HttpSecurity http) {
            OAuth2LoginConfigurer<HttpSecurity> login = http.getConfigurer(OAuth2LoginConfigurer.class);
            if (login != null) {
                login.authorizationEndpoint(endpoint -> endpoint.authorizationRequestRepository(requests));
                login.addObjectPostProcessor(new RefusalAnswers());
            }
            OAuth2ClientConfigurer<HttpSecurity> client = http.getConfigurer(OAuth2ClientConfigurer.class);
            if (client != null) {
                client.authorizationCodeGrant(grant -> grant.authorizationRequestRepository(requests));
                client.addObjectPostProcessor(new RefusalAnswers());
            }
        }
    }

    /**
     * Responds to a refused login with its status. Spring Security would respond with 500 and log a stack trace each time, which makes
     * a flood more expensive. A handler that the application sets with its own post-processor is applied later and wins.
     */
    @Order(Ordered.HIGHEST_PRECEDENCE)
    private static final class RefusalAnswers implements ObjectPostProcessor<OAuth2AuthorizationRequestRedirectFilter> {

        private static final Logger log = LoggerFactory.getLogger(RefusalAnswers.class);

        @Override
        public <O extends OAuth2AuthorizationRequestRedirectFilter> O postProcess(O filter) {
            filter.setAuthenticationFailureHandler((request, response, failure) -> {
                if (failure.getCause() instanceof LoginRefusedException refused) {
                    response.setHeader(
                            HttpHeaders.RETRY_AFTER,
                            String.valueOf(Math.max(1, PropertyRules.wholeSeconds(refused.retryAfter()))));
                    // Not sendError: the error page may need a login, to which the client would be redirected.
                    response.setStatus(refused.status().value());
                    response.setContentType("text/plain;charset=UTF-8");
                    response.getWriter().write("Too many logins have begun. Try again later.");
                    return;
                }
                // As Spring Security does; an unknown registration, whose name the message contains, is a mistake of
                // the client.
                if (failure.getCause() instanceof IllegalArgumentException unknown) {
                    log.warn("OAuth2: could not begin a login: {}", ErrorText.brief(unknown));
                } else {
                    log.error("OAuth2: could not begin a login", ErrorText.loggable(failure));
                }
                response.sendError(
                        HttpStatus.INTERNAL_SERVER_ERROR.value(), HttpStatus.INTERNAL_SERVER_ERROR.getReasonPhrase());
            });
            return filter;
        }
    }
}
