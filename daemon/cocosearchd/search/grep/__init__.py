"""Finds lines of files that match a regular expression. Each answer reads the files from disk."""
