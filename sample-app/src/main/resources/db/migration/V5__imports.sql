CREATE TABLE imports (
    id       uuid PRIMARY KEY,
    file     text NOT NULL,
    batch_id uuid NOT NULL,
    ended_at timestamptz
);

-- One row for each imported line.
CREATE TABLE imported_lines (
    import_id uuid NOT NULL,
    number    int NOT NULL,
    customer  text NOT NULL,
    node      text NOT NULL,
    at        timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (import_id, number)
);
