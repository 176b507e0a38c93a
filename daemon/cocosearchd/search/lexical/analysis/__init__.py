"""Analysis of texts into terms: words, definitions and comments. Runs in worker processes."""
