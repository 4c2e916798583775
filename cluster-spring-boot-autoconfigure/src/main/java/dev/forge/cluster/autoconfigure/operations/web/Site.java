// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.web;

/** A bean that is served below a path of the application, in Spring MVC and in WebFlux. It knows no web stack. */
public interface Site {

    /** Returns the path below the context path, without a trailing slash. */
    String path();

    /** Serves a request whose path is this one, or below. Blocks. */
    SiteResponse serve(SiteRequest request);
}
