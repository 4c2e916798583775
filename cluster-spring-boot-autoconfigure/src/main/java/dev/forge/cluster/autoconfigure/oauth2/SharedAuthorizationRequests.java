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
 * Logins under way, where every node finds them, each for the browser that began it.
 *
 * <p>That browser has a secret, in a cookie; a request is kept under the hash of secret and state. Without the secret a
 * state is unknown, so nobody can have another's browser complete a login of his own (login CSRF), use up another's login
 * by its state alone, or make use of what he reads in the table. An HTTP session did that by being the browser's own.
 */
final class SharedAuthorizationRequests implements AuthorizationRequestRepository<OAuth2AuthorizationRequest> {

    static final String COOKIE = "forge-oauth2";
    /** Browsers accept a cookie of such a name only from this very host, over TLS: no neighbour can plant one. */
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
            throw new IllegalArgumentException("an authorization request without a state");
        }
        admission.require(request);
        // The one it has serves a second tab too; a new one would make the first tab's login unknown.
        String known = secret(request);
        String secret = known != null ? known : secrets.generateKey();
        switch (states.putLogin(key(secret, state), login, timeToLive, admission.maxPending())) {
            case STORED -> admission.admitted();
            case KEY_TAKEN -> throw new IllegalStateException("this browser has begun a login with that state already");
            case FULL -> throw admission.refused();
        }
        response.addHeader(
                HttpHeaders.SET_COOKIE, cookie(secret, login, request).toString());
    }

    private ResponseCookie cookie(String secret, OAuth2AuthorizationRequest login, HttpServletRequest request) {
        boolean secure = request.isSecure();
        // An identity provider that answers by a form posts it from its own site.
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

    // All secrets are equally long: no other pair makes the same text.
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
            log.warn("a login under way cannot be read here, was it begun by another version? It has to begin anew", e);
            return null;
        }
    }
}
