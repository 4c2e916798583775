/**
 * Values of properties: rules that reject invalid values, and texts with a syntax of their own. All records of properties use
 * this package; it uses none of them.
 */
@NullMarked
package dev.forge.cluster.autoconfigure.properties.value;

import org.jspecify.annotations.NullMarked;
