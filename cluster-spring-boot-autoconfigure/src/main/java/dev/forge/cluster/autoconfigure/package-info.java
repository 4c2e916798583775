/** Auto-configuration of the node: data source, schema, life cycle, and the properties that all capabilities share. */
@NullMarked
package dev.forge.cluster.autoconfigure;

import org.jspecify.annotations.NullMarked;
