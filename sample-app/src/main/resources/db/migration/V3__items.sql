CREATE TABLE items (
    name  text PRIMARY KEY,
    price numeric NOT NULL
);
