"""PostgreSQL: the embedded server, the connection pool, the schema, all statements of both flows.

The store does not know what a chunk means or where a file is. No other package knows SQL or psycopg.
"""
