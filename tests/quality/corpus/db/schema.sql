-- Tables of the shop.

CREATE TABLE customer (
    id bigint PRIMARY KEY,
    email text NOT NULL UNIQUE,
    password_salt bytea NOT NULL,
    password_hash bytea NOT NULL
);

CREATE TABLE stock (
    article text PRIMARY KEY,
    available integer NOT NULL CHECK (available >= 0)
);

CREATE VIEW monthly_revenue AS
SELECT date_trunc('month', paid_at) AS month, sum(amount) AS revenue
FROM payment
GROUP BY 1;
