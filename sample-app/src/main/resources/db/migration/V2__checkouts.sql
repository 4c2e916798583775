-- What checkouts have done: one row for each step that was committed.
CREATE TABLE checkout_entries (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id uuid NOT NULL,
    entry  text NOT NULL,
    what   text NOT NULL,
    at     timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX checkout_entries_run ON checkout_entries (run_id);
