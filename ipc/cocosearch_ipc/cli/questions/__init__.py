"""Verbs that query the daemon: `query` with all options, indexes, files, and `bench`."""
