package dev.forge.cluster;

/** What to do when the cluster's schema is missing or behind. */
public enum SchemaMode {
    /** Install or upgrade it. */
    MIGRATE,
    /** Refuse to start. Needs no Flyway and no right to create anything. */
    VALIDATE,
    /** Believe that it is current. */
    NONE
}
