"""Lines of files that match a regular expression, read from disk for each answer."""
