// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.audit;

import dev.forge.cluster.audit.Operator;
import dev.forge.cluster.audit.OperatorSource;
import java.util.Optional;
import org.springframework.security.authentication.AuthenticationTrustResolver;
import org.springframework.security.authentication.AuthenticationTrustResolverImpl;
import org.springframework.security.core.Authentication;
import org.springframework.security.core.context.SecurityContextHolder;

/** The authenticated user of Spring Security on this thread. */
final class AuthenticatedOperator implements OperatorSource {

    private final AuthenticationTrustResolver trust = new AuthenticationTrustResolverImpl();

    @Override
    public Optional<Operator> current() {
        Authentication authentication = SecurityContextHolder.getContext().getAuthentication();
        // Not the anonymous user.
        return authentication != null
                        && trust.isAuthenticated(authentication)
                        && !authentication.getName().isBlank()
                ? Optional.of(Operator.named(authentication.getName()))
                : Optional.empty();
    }
}
