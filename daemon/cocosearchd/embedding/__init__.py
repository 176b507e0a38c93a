"""Text to vectors: one protocol (`base`), several providers, opened by `open`.

Nothing here knows files, chunks or PostgreSQL.
"""
