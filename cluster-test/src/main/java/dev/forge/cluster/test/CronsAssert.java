// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import dev.forge.cluster.cron.CronInfo;
import dev.forge.cluster.cron.Crons;
import org.assertj.core.api.AbstractAssert;

/** Assertions about crons. */
public final class CronsAssert extends AbstractAssert<CronsAssert, Crons> {

    private static final int MOST = 1_000;

    CronsAssert(Crons actual) {
        super(actual, CronsAssert.class);
    }

    /** Asserts that there is a cron of that name, and begins assertions about its slots. */
    public CronSlotsAssert fires(String cron) {
        isNotNull();
        CronInfo info = actual.find(cron).orElse(null);
        if (info == null) {
            failWithMessage(
                    "There is no cron '%s'; there are %s",
                    cron, actual.list(MOST).items().stream().map(CronInfo::name).toList());
        }
        return new CronSlotsAssert(info);
    }
}
