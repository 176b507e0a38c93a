"""The embedded PostgreSQL server: its binaries, account, directories, processes and log."""
