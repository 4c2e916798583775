// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.web;

import dev.forge.cluster.autoconfigure.operations.web.Visitor.Csrf;
import dev.forge.cluster.autoconfigure.properties.web.OperationsProperties.Authorities;
import jakarta.servlet.http.HttpServletRequest;
import java.util.Collection;
import java.util.EnumSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import org.springframework.security.access.hierarchicalroles.RoleHierarchy;
import org.springframework.security.authentication.AuthenticationTrustResolver;
import org.springframework.security.authentication.AuthenticationTrustResolverImpl;
import org.springframework.security.core.Authentication;
import org.springframework.security.core.GrantedAuthority;
import org.springframework.security.core.context.SecurityContextHolder;
import org.springframework.security.web.csrf.CsrfToken;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Mono;

/** Asks Spring Security who a visitor is. Reads what its filters have left in the request; changes nothing. */
final class SecurityVisitors {

    private static final AuthenticationTrustResolver TRUST = new AuthenticationTrustResolverImpl();

    private final Authorities authorities;
    private final RoleHierarchy hierarchy;

    SecurityVisitors(Authorities authorities, RoleHierarchy hierarchy) {
        this.authorities = authorities;
        this.hierarchy = hierarchy;
    }

    Visitor visitor(@Nullable Authentication authentication, Supplier<@Nullable Csrf> csrf) {
        if (authentication == null) {
            return new Visitor(null, Set.of(), csrf);
        }
        Collection<? extends GrantedAuthority> reachable =
                hierarchy.getReachableGrantedAuthorities(authentication.getAuthorities());
        Set<String> granted = reachable.stream()
                .map(authority -> String.valueOf(authority.getAuthority()))
                .collect(Collectors.toSet());
        var permissions = EnumSet.noneOf(Permission.class);
        if (authentication.isAuthenticated() && containsAny(granted, authorities.view())) {
            permissions.add(Permission.VIEW);
            if (containsAny(granted, authorities.values())) {
                permissions.add(Permission.VALUES);
            }
            if (containsAny(granted, authorities.operate())) {
                permissions.add(Permission.OPERATE);
            }
        }
        return new Visitor(TRUST.isAuthenticated(authentication) ? authentication.getName() : null, permissions, csrf);
    }

    private static boolean containsAny(Set<String> granted, List<String> asked) {
        return asked.stream().anyMatch(granted::contains);
    }

    /** The names of types of a servlet application. */
    static final class Servlet {

        private Servlet() {}

        static Visitor of(SecurityVisitors visitors, HttpServletRequest request) {
            return visitors.visitor(
                    SecurityContextHolder.getContext().getAuthentication(),
                    () -> request.getAttribute(CsrfToken.class.getName()) instanceof CsrfToken token
                            ? new Csrf(token.getHeaderName(), token.getToken())
                            : null);
        }
    }

    /** The names of types of a WebFlux application. */
    static final class Reactive {

        private Reactive() {}

        static Mono<Visitor> of(SecurityVisitors visitors, ServerWebExchange exchange) {
            Mono<Csrf> csrf = SiteRequest.mayNeedToken(
                            exchange.getRequest().getMethod().name(),
                            exchange.getRequest().getPath().value())
                    ? csrf(exchange)
                    : Mono.empty();
            return csrf.map(Optional::of)
                    .defaultIfEmpty(Optional.empty())
                    .flatMap(token -> exchange.getPrincipal()
                            .ofType(Authentication.class)
                            .map(authentication -> visitors.visitor(authentication, () -> token.orElse(null)))
                            .defaultIfEmpty(visitors.visitor(null, () -> token.orElse(null))));
        }

        private static Mono<Csrf> csrf(ServerWebExchange exchange) {
            Object attribute =
                    exchange.getAttribute(org.springframework.security.web.server.csrf.CsrfToken.class.getName());
            return attribute instanceof Mono<?> token
                    ? token.cast(org.springframework.security.web.server.csrf.CsrfToken.class)
                            .map(found -> new Csrf(found.getHeaderName(), found.getToken()))
                    : Mono.empty();
        }
    }
}
