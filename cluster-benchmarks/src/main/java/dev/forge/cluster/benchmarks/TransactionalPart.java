// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks;

import dev.forge.cluster.benchmarks.contestant.BareTransactions;
import dev.forge.cluster.benchmarks.contestant.Contestant;
import dev.forge.cluster.benchmarks.contestant.DbScheduler;
import dev.forge.cluster.benchmarks.contestant.RowChange;
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
        Contestant ours = TransactionalNode.empty(server);
        Contestant bulk = TransactionalNode.bulk(server);
        Contestant dbScheduler = new DbScheduler(server);
        var change = new RowChange(server);
        Contestant oursWriting = TransactionalNode.writing(server, change);
        Contestant dbSchedulerWriting = DbScheduler.writing(server, change);
        List<Contestant> all = List.of(bare, ours, bulk, dbScheduler, oursWriting, dbSchedulerWriting);
        Rounds rounds = Drains.measure(server, all);
        Drains.report(report, rounds, all);
        report.atLeast(0.7, "transactional : bare transactions", Drains.ratio(rounds, ours, bare), "x");
        report.atLeast(1.2, "transactional : db-scheduler", Drains.ratio(rounds, ours, dbScheduler), "x");
        report.add("bare transactions : db-scheduler", Drains.ratio(rounds, bare, dbScheduler), "x");
        report.atLeast(
                1.2,
                "handler changes a row: transactional : db-scheduler",
                Drains.ratio(rounds, oursWriting, dbSchedulerWriting),
                "x");
        report.atLeast(8, "batches of 100 : single transactional", Drains.ratio(rounds, bulk, ours), "x");
        report.atMost(
                1.5,
                "CPU per job, transactional : bare transactions",
                rounds.median(ours.name() + " cpu") / rounds.median(bare.name() + " cpu"),
                "x");
    }
}
