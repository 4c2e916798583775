package dev.forge.cluster.benchmarks;

import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.store.Schema;
import io.zonky.test.db.postgres.embedded.EmbeddedPostgres;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.function.DoubleSupplier;
import javax.sql.DataSource;

/** Runs everything on one durable PostgreSQL and prints a table: the median of three rounds each. */
public final class Benchmarks {

    private static final int ROUNDS = 3;
    private static final int JOBS = 100_000;

    private Benchmarks() {}

    public static void main(String[] args) throws Exception {
        try (EmbeddedPostgres postgres = EmbeddedPostgres.builder()
                .setServerConfig("fsync", "on")
                .setServerConfig("synchronous_commit", "on")
                .setServerConfig("full_page_writes", "on")
                .start()) {
            DataSource source = postgres.getPostgresDatabase();
            Schema schema = Schema.open(source, SchemaMode.MIGRATE, "public");
            var raw = new RawSql(source);
            System.out.printf("%-58s %12s%n", "median of " + ROUNDS + " rounds of " + JOBS + " jobs", "jobs/s");
            report("raw SQL: multi-row insert, 1,000 rows a statement", () -> raw.insert(JOBS));
            report("raw SQL: claim and finish, k=100, 2 connections, rows kept", () -> {
                raw.insert(JOBS);
                return raw.drain(100, 2);
            });
            report("ours: drain, 20 threads, rows kept", () -> {
                raw.insert(JOBS);
                var left = new CountDownLatch(JOBS);
                long start = System.nanoTime();
                Ours ours = new Ours("ours", schema, source, source, job -> left.countDown());
                try {
                    await(left);
                    raw.awaitFinished();
                    return JOBS / ((System.nanoTime() - start) / 1e9);
                } finally {
                    ours.close();
                }
            });
        }
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private static void report(String name, DoubleSupplier jobsPerSecond) {
        double[] rounds = new double[ROUNDS];
        Arrays.setAll(rounds, round -> jobsPerSecond.getAsDouble());
        Arrays.sort(rounds);
        System.out.printf("%-58s %,12.0f%n", name, rounds[ROUNDS / 2]);
    }
}
