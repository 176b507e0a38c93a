"""PostgreSQL: the embedded server, the connection pool, the schema, all statements of both flows.

Nothing here knows what a chunk means or where a file is; nothing outside of here knows SQL or
psycopg.
"""
