CREATE TABLE orders (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer    text NOT NULL,
    status      text NOT NULL DEFAULT 'new',
    ordered_at  timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE order_lines (
    order_id bigint NOT NULL REFERENCES orders (id),
    article  text NOT NULL
);
INSERT INTO orders (customer) VALUES ('first');
