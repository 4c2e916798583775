package dev.forge.cluster.internal.runtime;

/**
 * The beginning of names that a capability of the cluster uses for itself.
 *
 * @param text how such names begin
 * @param owner what these names belong to, such as "daemons"
 * @param advice what to do instead of using such a name
 */
public record ReservedPrefix(String text, String owner, String advice) {

    /** Returns whether a name begins like that. */
    public boolean matches(String name) {
        return name.startsWith(text);
    }
}
