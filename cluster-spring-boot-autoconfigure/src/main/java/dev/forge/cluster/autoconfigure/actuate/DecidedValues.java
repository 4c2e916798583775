// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.actuate;

import java.security.Principal;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.actuate.endpoint.SecurityContext;

/**
 * A caller whose right to see values has been decided already, so that {@code show-values} does not apply.
 *
 * @param shown whether the caller may see values
 */
public record DecidedValues(boolean shown) implements SecurityContext {

    @Override
    public @Nullable Principal getPrincipal() {
        return null;
    }

    @Override
    public boolean isUserInRole(String role) {
        return false;
    }
}
