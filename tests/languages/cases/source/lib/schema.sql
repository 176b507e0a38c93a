-- Who buys.
CREATE TABLE shop.customers (
    id bigint PRIMARY KEY,
    name text NOT NULL
);

CREATE INDEX customers_name ON shop.customers (name);

CREATE VIEW active_customers AS
SELECT id, name FROM shop.customers WHERE name <> '';

CREATE FUNCTION add_customer(new_name text) RETURNS bigint AS $$
BEGIN
    INSERT INTO shop.customers (name) VALUES (new_name);
    RETURN 1;
END
$$ LANGUAGE plpgsql;
