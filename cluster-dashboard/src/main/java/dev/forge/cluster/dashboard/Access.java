// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import org.jspecify.annotations.Nullable;
import org.springframework.security.access.AccessDeniedException;
import org.springframework.util.ClassUtils;

/** How the application decides who a visitor is. */
enum Access {

    /** Spring Security decides. */
    SECURED {
        @Override
        RuntimeException pageDenied() {
            return Denied.exception();
        }
    },

    /** There is no Spring Security: everybody may view, and nobody may change anything or see values. */
    OPEN {
        @Override
        RuntimeException pageDenied() {
            throw new IllegalStateException("Without Spring Security everybody may view");
        }
    };

    /** Returns how an application with that class path decides. */
    static Access of(@Nullable ClassLoader classes) {
        return ClassUtils.isPresent("org.springframework.security.web.SecurityFilterChain", classes) ? SECURED : OPEN;
    }

    /** Returns the exception that makes the application's security ask for a login, or show its own page for denied access. */
    abstract RuntimeException pageDenied();

    /** Keeps the type of Spring Security out of applications without it. */
    private static final class Denied {
        static RuntimeException exception() {
            return new AccessDeniedException("The dashboard needs one of forge.cluster.dashboard.authorities.view");
        }
    }
}
