"""The stages of one file: read, parse, chunk, describe, with a cache for each result."""
