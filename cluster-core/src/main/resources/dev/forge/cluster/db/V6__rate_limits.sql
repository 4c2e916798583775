-- Forge Cluster, schema version 6: buckets of rate limits.
-- Run like version 1; see there.

-- Made anew, since no library before this one has ever read or written it. What is spent is kept rather than what is left, so
-- that a limit that grows or shrinks counts at once. No index but the key: every call changes a row in place. UNLOGGED:
-- after a crash of the server every bucket is full again.
DROP TABLE forge_rate_limits;
CREATE UNLOGGED TABLE forge_rate_limits (
    bucket     text PRIMARY KEY,
    spent      double precision NOT NULL,
    capacity   double precision NOT NULL,
    per_second double precision NOT NULL,
    -- How many of the last calls were admitted: the statement that took them asks.
    granted    integer NOT NULL,
    updated_at timestamptz NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

INSERT INTO forge_schema_versions (version, needs_library) VALUES (6, 1);
