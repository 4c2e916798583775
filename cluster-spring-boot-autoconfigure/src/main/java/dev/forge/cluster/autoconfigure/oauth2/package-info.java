/** OAuth2 logins that any node can complete. */
@NullMarked
package dev.forge.cluster.autoconfigure.oauth2;

import org.jspecify.annotations.NullMarked;
