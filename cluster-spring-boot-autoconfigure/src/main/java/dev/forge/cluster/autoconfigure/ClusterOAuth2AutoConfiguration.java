package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.internal.engine.StoredStates;
import dev.forge.cluster.internal.store.Schema;
import dev.forge.cluster.internal.store.StateStore;
import jakarta.servlet.Filter;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBooleanProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnWebApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Conditional;
import org.springframework.security.config.Customizer;
import org.springframework.security.config.annotation.web.builders.HttpSecurity;
import org.springframework.security.config.annotation.web.configurers.AbstractHttpConfigurer;
import org.springframework.security.config.annotation.web.configurers.oauth2.client.OAuth2ClientConfigurer;
import org.springframework.security.config.annotation.web.configurers.oauth2.client.OAuth2LoginConfigurer;
import org.springframework.security.jackson.SecurityJacksonModules;
import org.springframework.security.oauth2.client.web.AuthorizationRequestRepository;
import org.springframework.security.oauth2.core.endpoint.OAuth2AuthorizationRequest;
import tools.jackson.databind.json.JsonMapper;

/**
 * Lets an OAuth2 login that began on one node be completed on any other. An {@link AuthorizationRequestRepository} of the
 * application's takes precedence: then nothing here is.
 */
@AutoConfiguration(after = ClusterAutoConfiguration.class)
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

    // On the table itself, not on the bean: every node that serves requests logs people in, an observer too, and only
    // Spring Security's own mapper knows how to write such a request and which types may be read.
    @Bean
    AuthorizationRequestRepository<OAuth2AuthorizationRequest> clusterAuthorizationRequests(
            ClusterDatabase database, Schema schema, ClusterLifecycle.Parts parts, ClusterProperties properties) {
        JsonMapper mapper = JsonMapper.builder()
                .addModules(SecurityJacksonModules.getModules(ClusterOAuth2AutoConfiguration.class.getClassLoader()))
                .build();
        return new SharedAuthorizationRequests(
                StoredStates.ofAnyNode(
                        new StateStore(
                                schema, database.application(), parts.control().shared()),
                        new JacksonPayloadCodec(mapper),
                        Math.toIntExact(properties.job().maxPayloadSize().toBytes())),
                properties.oauth2().ttl());
    }

    /** Spring Security looks for no such bean, so each chain is told of it. */
    @Bean
    Customizer<HttpSecurity> clusterAuthorizationRequestsCustomizer(
            AuthorizationRequestRepository<OAuth2AuthorizationRequest> requests) {
        return http -> http.with(new SharedLogins(requests));
    }

    /**
     * Asks when every configurer has been initialized, since one may add another, and before those of the logins build
     * their filters: it is the first of the chain.
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
            }
            OAuth2ClientConfigurer<HttpSecurity> client = http.getConfigurer(OAuth2ClientConfigurer.class);
            if (client != null) {
                client.authorizationCodeGrant(grant -> grant.authorizationRequestRepository(requests));
            }
        }
    }
}
