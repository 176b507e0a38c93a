"""Scores files and chunks of a snapshot for a query: by words, names, phrases, symbols and vectors."""
