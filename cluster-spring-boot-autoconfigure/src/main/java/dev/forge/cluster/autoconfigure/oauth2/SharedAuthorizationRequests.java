// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.oauth2;

import dev.forge.cluster.internal.state.DefaultClusterStateStore;
import dev.forge.cluster.internal.state.StateStore;
import jakarta.servlet.http.Cookie;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.Base64;
import java.util.Optional;
import java.util.function.Supplier;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.http.HttpHeaders;
import org.springframework.http.ResponseCookie;
import org.springframework.security.crypto.keygen.Base64StringKeyGenerator;
import org.springframework.security.crypto.keygen.StringKeyGenerator;
import org.springframework.security.oauth2.client.web.AuthorizationRequestRepository;
import org.springframework.security.oauth2.core.endpoint.OAuth2AuthorizationRequest;
import org.springframework.security.oauth2.core.endpoint.OAuth2ParameterNames;

/**
 * Stores pending logins where every node finds them, each bound to the browser that began it.
 *
 * <p>The browser has a secret in a cookie; an authorization request is stored under the hash of secret and state. Without the secret
 * the state is worthless: an attacker can neither make another browser complete the attacker's login (login CSRF), nor consume a login
 * by its state alone, nor use rows read from the table. An HTTP session provides the same binding.
 */
final class SharedAuthorizationRequests implements AuthorizationRequestRepository<OAuth2AuthorizationRequest> {

    static final String COOKIE = "forge-oauth2";
    /** Browsers accept a cookie with this prefix only from this host over TLS, so no sibling domain can set it. */
    static final String SECURE_COOKIE = "__Host-" + COOKIE;

    private static final Logger log = LoggerFactory.getLogger(SharedAuthorizationRequests.class);
    private static final int SECRET_BYTES = 32;
    private static final Pattern SECRET = Pattern.compile("[A-Za-z0-9_-]{43}");
    private static final Base64.Encoder BASE64 = Base64.getUrlEncoder().withoutPadding();

    private final DefaultClusterStateStore states;
    private final Duration timeToLive;
    private final LoginAdmission admission;
    private final StringKeyGenerator secrets = new Base64StringKeyGenerator(BASE64, SECRET_BYTES);

    SharedAuthorizationRequests(DefaultClusterStateStore states, Duration timeToLive, LoginAdmission admission) {
        this.states = states;
        this.timeToLive = timeToLive;
        this.admission = admission;
    }

    @Override
    public @Nullable OAuth2AuthorizationRequest loadAuthorizationRequest(HttpServletRequest request) {
        String key = key(request);
        return key == null ? null : readable(() -> states.find(key, OAuth2AuthorizationRequest.class));
    }

    @Override
    public @Nullable OAuth2AuthorizationRequest removeAuthorizationRequest(
            HttpServletRequest request, HttpServletResponse response) {
        String key = key(request);
        return key == null ? null : readable(() -> states.takeOnce(key, OAuth2AuthorizationRequest.class));
    }

    @Override
    public void saveAuthorizationRequest(
            @Nullable OAuth2AuthorizationRequest login, HttpServletRequest request, HttpServletResponse response) {
        if (login == null) {
            removeAuthorizationRequest(request, response);
            return;
        }
        String state = login.getState();
        if (state == null || state.isBlank()) {
            throw new IllegalArgumentException("the authorization request has no state");
        }
        admission.require(request);
        // The secret is shared by all tabs; a new one would invalidate the login of another tab.
        String known = secret(request);
        String secret = known != null ? known : secrets.generateKey();
        switch (states.putLogin(key(secret, state), login, timeToLive, admission.maxPending())) {
            case STORED -> admission.admitted();
            case KEY_TAKEN -> throw new IllegalStateException("this browser has already begun a login with that state");
            case FULL -> throw admission.refused();
        }
        response.addHeader(
                HttpHeaders.SET_COOKIE, cookie(secret, login, request).toString());
    }

    private ResponseCookie cookie(String secret, OAuth2AuthorizationRequest login, HttpServletRequest request) {
        boolean secure = request.isSecure();
        // With response_mode=form_post the identity provider sends the callback as a cross-site POST.
        boolean posted = "form_post".equals(login.getAdditionalParameters().get("response_mode"));
        String path = request.getContextPath();
        return ResponseCookie.from(secure ? SECURE_COOKIE : COOKIE, secret)
                .httpOnly(true)
                .secure(secure)
                .sameSite(secure && posted ? "None" : "Lax")
                .path(secure || path.isEmpty() ? "/" : path)
                .maxAge(timeToLive)
                .build();
    }

    private static @Nullable String key(HttpServletRequest request) {
        String state = request.getParameter(OAuth2ParameterNames.STATE);
        String secret = secret(request);
        return state == null || state.isBlank() || secret == null ? null : key(secret, state);
    }

    // All secrets have the same length, so the concatenation is unambiguous.
    private static String key(String secret, String state) {
        try {
            byte[] hash =
                    MessageDigest.getInstance("SHA-256").digest((secret + state).getBytes(StandardCharsets.UTF_8));
            return StateStore.LOGIN + BASE64.encodeToString(hash);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every Java platform has SHA-256", e);
        }
    }

    private static @Nullable String secret(HttpServletRequest request) {
        Cookie[] cookies = request.getCookies();
        if (cookies == null) {
            return null;
        }
        String name = request.isSecure() ? SECURE_COOKIE : COOKIE;
        for (Cookie cookie : cookies) {
            String value = cookie.getValue();
            if (name.equals(cookie.getName())
                    && value != null
                    && SECRET.matcher(value).matches()) {
                return value;
            }
        }
        return null;
    }

    private static @Nullable OAuth2AuthorizationRequest readable(
            Supplier<Optional<OAuth2AuthorizationRequest>> answer) {
        try {
            return answer.get().orElse(null);
        } catch (IllegalArgumentException e) {
            log.warn(
                    "OAuth2: could not read a pending login, perhaps written by another version; the user must log in again",
                    e);
            return null;
        }
    }
}
