-- Forge Cluster, schema version 5: what running daemons needs beyond their rows.
-- Run like version 1; see there.

ALTER TABLE forge_daemons
    -- Of scope node there is one row for each node that runs it, without a term; it goes with its node.
    ADD COLUMN scope text NOT NULL DEFAULT 'cluster',
    ADD CONSTRAINT forge_daemons_scope CHECK (scope IN ('cluster', 'node'));

-- Notes are written once a second.
ALTER TABLE forge_daemons SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Apart from the rows: of scope node they come and go, and an operator's word must outlive them.
CREATE TABLE forge_daemon_pauses (
    name      text PRIMARY KEY,
    paused_at timestamptz NOT NULL DEFAULT now()
);

INSERT INTO forge_schema_versions (version, needs_library) VALUES (5, 1);
