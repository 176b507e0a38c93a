"""Texts to terms: words, definitions and comments, computed in worker processes."""
