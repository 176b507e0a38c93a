"""What a query finds in a snapshot: words, names, phrases, symbols and vectors."""
