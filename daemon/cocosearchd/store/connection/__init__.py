"""Connections: the pool, preflight checks, the instance lock, migrations, SQL files."""
