"""Scores of a query in a snapshot: by words, names, phrases, symbols and vectors."""
