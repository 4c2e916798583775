// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks;

import dev.forge.cluster.benchmarks.contestant.BareTransactions;
import dev.forge.cluster.benchmarks.contestant.Contestant;
import dev.forge.cluster.benchmarks.contestant.DbScheduler;
import dev.forge.cluster.benchmarks.contestant.TransactionalNode;
import dev.forge.cluster.benchmarks.measure.Report;
import dev.forge.cluster.benchmarks.measure.Rounds;
import dev.forge.cluster.benchmarks.measure.Server;
import java.util.List;

/** Measures transactional handlers, which users typically write first. */
final class TransactionalPart implements Part {

    @Override
    public void run(Server server, Report report) {
        Contestant bare = new BareTransactions(server);
        Contestant ours = new TransactionalNode(server, 1);
        Contestant bulk = new TransactionalNode(server, 100);
        Contestant dbScheduler = new DbScheduler(server);
        List<Contestant> all = List.of(bare, ours, bulk, dbScheduler);
        Rounds rounds = Drains.measure(server, all);
        Drains.report(report, rounds, all);
        report.atLeast(0.7, "transactional : bare transactions", Drains.ratio(rounds, ours, bare), "x");
        report.atLeast(1.2, "transactional : db-scheduler", Drains.ratio(rounds, ours, dbScheduler), "x");
        report.atLeast(8, "batches of 100 : single transactional", Drains.ratio(rounds, bulk, ours), "x");
        report.atMost(
                1.5,
                "CPU per job, transactional : bare transactions",
                rounds.median(ours.name() + " cpu") / rounds.median(bare.name() + " cpu"),
                "x");
    }
}
