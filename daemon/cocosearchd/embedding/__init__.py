"""Turns text into vectors: one protocol (`base`), several providers, opened by `factory`.

Nothing here knows files, chunks or PostgreSQL.
"""
