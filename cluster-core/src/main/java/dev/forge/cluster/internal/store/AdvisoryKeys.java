package dev.forge.cluster.internal.store;

/**
 * The advisory lock keys of this library. All but the documented leader keys use the two-integer form with one class id,
 * so that they can never meet an application's own {@code bigint} keys.
 */
final class AdvisoryKeys {

    /** "FORG". */
    static final int CLASS_ID = 0x464F5247;

    private AdvisoryKeys() {}
}
