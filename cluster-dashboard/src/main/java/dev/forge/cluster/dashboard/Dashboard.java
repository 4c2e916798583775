// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import java.util.Map;

/** Serves the dashboard: page, static files and API. Knows no web stack. */
final class Dashboard {

    private final String name;
    private final Access access;
    private final Assets assets;
    private final DashboardApi api;

    /** @param path the path of the dashboard, without a trailing slash */
    Dashboard(String path, Access access, Assets assets, DashboardApi api) {
        this.name = path.substring(path.lastIndexOf('/') + 1);
        this.access = access;
        this.assets = assets;
        this.api = api;
    }

    /**
     * Serves a request. Blocks while the database is read.
     *
     * @throws RuntimeException that of {@link Access#pageDenied} if the visitor may not open the page
     */
    DashboardResponse serve(DashboardRequest request) {
        if (request.isApi()) {
            return api.serve(request);
        }
        if (!request.isRead()) {
            return new DashboardResponse(405, Map.of("Allow", "GET, HEAD", "Cache-Control", "no-store"), new byte[0]);
        }
        if (request.path().isEmpty()) {
            // Relative, so that it is right behind a proxy that adds a prefix.
            String query = request.query() == null ? "" : "?" + request.query();
            return new DashboardResponse(
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
