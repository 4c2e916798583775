// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import dev.forge.cluster.autoconfigure.operations.web.SiteRequest;
import dev.forge.cluster.autoconfigure.operations.web.SiteResponse;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.zip.GZIPOutputStream;
import org.jspecify.annotations.Nullable;
import org.springframework.aot.hint.RuntimeHints;
import org.springframework.aot.hint.RuntimeHintsRegistrar;
import org.springframework.core.io.support.PathMatchingResourcePatternResolver;

/**
 * The static files, held in memory. All but the page are below {@code assets/{hash}/}, where the hash is that of all files: browsers
 * keep them, and a new version has new addresses.
 */
final class Assets {

    private static final String ROOT = "dev/forge/cluster/dashboard/web/";
    private static final String PAGE = "index.html";
    private static final Pattern ADDRESS = Pattern.compile("/assets/([0-9a-f]+)/([A-Za-z0-9/._-]+)");
    private static final Map<String, String> TYPES = Map.of(
            "html", "text/html;charset=UTF-8",
            "js", "text/javascript;charset=UTF-8",
            "css", "text/css;charset=UTF-8",
            "svg", "image/svg+xml",
            "txt", "text/plain;charset=UTF-8");

    private final Map<String, File> files;
    private final String hash;

    @SuppressWarnings("ArrayRecordComponent") // neither compared nor changed
    private record File(String type, byte[] content, byte[] gzip) {}

    /** Adds the static files to native images. */
    static final class Hints implements RuntimeHintsRegistrar {

        @Override
        public void registerHints(RuntimeHints hints, @Nullable ClassLoader loader) {
            hints.resources().registerPattern(ROOT + "**");
        }
    }

    private Assets(Map<String, File> files, String hash) {
        this.files = files;
        this.hash = hash;
    }

    /** Reads all files from the class path. */
    static Assets load() {
        Map<String, byte[]> contents = contents();
        MessageDigest digest = sha256();
        contents.forEach((name, content) -> {
            digest.update(name.getBytes(StandardCharsets.UTF_8));
            digest.update(content);
        });
        String hash = HexFormat.of().formatHex(digest.digest(), 0, 8);
        var files = new TreeMap<String, File>();
        contents.forEach((name, content) -> {
            byte[] served = name.equals(PAGE)
                    ? new String(content, StandardCharsets.UTF_8)
                            .replace("assets/0/", "assets/%s/".formatted(hash))
                            .getBytes(StandardCharsets.UTF_8)
                    : content;
            String type = TYPES.get(name.substring(name.lastIndexOf('.') + 1));
            if (type == null) {
                throw new IllegalStateException("Static file of unknown type: " + name);
            }
            files.put(name, new File(type, served, gzip(served)));
        });
        return new Assets(files, hash);
    }

    /** Returns the contents of all files by their path below the root. */
    static Map<String, byte[]> contents() {
        var resolver = new PathMatchingResourcePatternResolver(Assets.class.getClassLoader());
        var contents = new TreeMap<String, byte[]>();
        try {
            for (var resource : resolver.getResources("classpath:" + ROOT + "**/*.*")) {
                String address = resource.getURL().toString();
                try (InputStream in = resource.getInputStream()) {
                    contents.put(address.substring(address.lastIndexOf(ROOT) + ROOT.length()), in.readAllBytes());
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException("Could not read the static files of the dashboard", e);
        }
        return contents;
    }

    SiteResponse page(SiteRequest request) {
        String tag = "\"" + hash + "\"";
        if (tag.equals(request.header("If-None-Match"))) {
            return new SiteResponse(304, Map.of("ETag", tag, "Cache-Control", "private, no-cache"), new byte[0]);
        }
        return served(files.get(PAGE), request)
                .withHeader("Cache-Control", "private, no-cache")
                .withHeader("ETag", tag);
    }

    SiteResponse file(SiteRequest request) {
        Matcher address = ADDRESS.matcher(request.path());
        File file = address.matches() ? files.get(address.group(2)) : null;
        if (file == null) {
            return new SiteResponse(404, Map.of("Cache-Control", "no-store"), new byte[0]);
        }
        // During a deployment the page may come from a node of another version. It gets the files of this one, and does
        // not keep them.
        return served(file, request)
                .withHeader(
                        "Cache-Control",
                        address.group(1).equals(hash) ? "public, max-age=31536000, immutable" : "no-store");
    }

    private static SiteResponse served(@Nullable File file, SiteRequest request) {
        if (file == null) {
            throw new IllegalStateException("The dashboard has no page");
        }
        var response = new SiteResponse(
                200,
                Map.of("Content-Type", file.type, "Vary", "Accept-Encoding"),
                request.acceptsGzip() ? file.gzip : file.content);
        return request.acceptsGzip() ? response.withHeader("Content-Encoding", "gzip") : response;
    }

    static byte[] gzip(byte[] content) {
        var bytes = new ByteArrayOutputStream();
        try (var gzip = new GZIPOutputStream(bytes)) {
            gzip.write(content);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return bytes.toByteArray();
    }

    static MessageDigest sha256() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }
}
