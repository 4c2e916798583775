CREATE TABLE orders (
    id         uuid PRIMARY KEY,
    item       text NOT NULL,
    quantity   int NOT NULL,
    status     text NOT NULL DEFAULT 'new',
    created_at timestamptz NOT NULL DEFAULT now()
);

-- One row for every execution that was committed.
CREATE TABLE ledger (
    order_id uuid NOT NULL,
    job_id   uuid NOT NULL,
    attempt  int NOT NULL,
    node     text NOT NULL,
    at       timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ledger_order ON ledger (order_id);

CREATE TABLE reports (
    cron text NOT NULL,
    slot timestamptz NOT NULL,
    node text NOT NULL,
    term bigint NOT NULL,
    at   timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE price_ticks (
    node text NOT NULL,
    term bigint NOT NULL,
    seq  bigint NOT NULL,
    at   timestamptz NOT NULL DEFAULT now()
);
