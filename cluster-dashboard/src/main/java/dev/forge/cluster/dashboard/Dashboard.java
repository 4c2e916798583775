// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import dev.forge.cluster.audit.AuditSource;
import dev.forge.cluster.autoconfigure.operations.web.Access;
import dev.forge.cluster.autoconfigure.operations.web.OperationsApi;
import dev.forge.cluster.autoconfigure.operations.web.Permission;
import dev.forge.cluster.autoconfigure.operations.web.Site;
import dev.forge.cluster.autoconfigure.operations.web.SiteRequest;
import dev.forge.cluster.autoconfigure.operations.web.SiteResponse;
import java.util.Map;

/** Serves the dashboard: page, static files, and the API for operators that the page reads. */
final class Dashboard implements Site {

    private static final String API = "/api";

    private final String path;
    private final Access access;
    private final Assets assets;
    private final OperationsApi api;

    /** @param path the path of the dashboard, without a trailing slash */
    Dashboard(String path, Access access, Assets assets, OperationsApi api) {
        this.path = path;
        this.access = access;
        this.assets = assets;
        this.api = api;
    }

    @Override
    public String path() {
        return path;
    }

    /**
     * Serves a request. Blocks while the database is read.
     *
     * @throws RuntimeException that of {@link Access#pageDenied} if the visitor may not open the page
     */
    @Override
    public SiteResponse serve(SiteRequest request) {
        if (request.path().startsWith(API + "/")) {
            return api.serve(request.below(API), AuditSource.DASHBOARD);
        }
        if (!request.isRead()) {
            return new SiteResponse(405, Map.of("Allow", "GET, HEAD", "Cache-Control", "no-store"), new byte[0]);
        }
        if (request.path().isEmpty()) {
            // Relative, so that it is right behind a proxy that adds a prefix.
            String name = path.substring(path.lastIndexOf('/') + 1);
            String query = request.query() == null ? "" : "?" + request.query();
            return new SiteResponse(
                    302, Map.of("Location", name + "/" + query, "Cache-Control", "no-store"), new byte[0]);
        }
        if (request.path().equals("/")) {
            if (!request.visitor().may(Permission.VIEW)) {
                throw access.pageDenied();
            }
            return assets.page(request);
        }
        // Public: the files are those of an open-source project and contain no data.
        return assets.file(request);
    }
}
