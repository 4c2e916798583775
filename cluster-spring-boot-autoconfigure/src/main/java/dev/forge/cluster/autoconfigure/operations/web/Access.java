// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.web;

import dev.forge.cluster.autoconfigure.properties.web.OperationsProperties;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.core.env.Environment;
import org.springframework.security.access.AccessDeniedException;
import org.springframework.util.ClassUtils;

/** How the application decides who a visitor is. */
public enum Access {

    /** Spring Security decides. */
    SECURED {
        @Override
        public RuntimeException pageDenied() {
            return Denied.exception();
        }
    },

    /** There is no Spring Security: everybody may view, and nobody may change anything or see values. */
    OPEN {
        @Override
        public RuntimeException pageDenied() {
            throw new IllegalStateException("Without Spring Security everybody may view");
        }
    };

    /** Returns how an application with that class path decides. */
    public static Access of(@Nullable ClassLoader classes) {
        return ClassUtils.isPresent("org.springframework.security.web.SecurityFilterChain", classes) ? SECURED : OPEN;
    }

    /**
     * Logs who may use a site.
     *
     * @param name the name of the site
     * @param path its path below the context path
     */
    public void announce(Logger log, String name, Environment environment, String path, OperationsProperties settings) {
        String address = environment.getProperty("server.servlet.context-path", "")
                + environment.getProperty("spring.webflux.base-path", "")
                + path;
        if (this == SECURED) {
            log.info(
                    "{}: {}/ for users with one of {}",
                    name,
                    address,
                    settings.authorities().view());
        } else {
            log.info(
                    "{}: {}/ is read-only and hides values, because the application has no Spring Security",
                    name,
                    address);
        }
    }

    /** Returns the exception that makes the application's security ask for a login, or show its own page for denied access. */
    public abstract RuntimeException pageDenied();

    /** Keeps the type of Spring Security out of applications without it. */
    private static final class Denied {
        static RuntimeException exception() {
            return new AccessDeniedException(
                    "This page needs one of the authorities in forge.cluster.operations.authorities.view");
        }
    }
}
