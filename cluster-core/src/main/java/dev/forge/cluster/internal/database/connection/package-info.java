/**
 * The connections of a node: its own ones beside the application's pool, those of the application, and what a pooler between
 * them and the server changes. Knows neither the schema nor transactions.
 */
@NullMarked
package dev.forge.cluster.internal.database.connection;

import org.jspecify.annotations.NullMarked;
