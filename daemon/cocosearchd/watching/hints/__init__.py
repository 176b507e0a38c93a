"""Hints backends: one module for each source of change events, and the choice between them.

Backends know directories and events. They know neither ignore rules nor the index, and they prove
nothing.
"""
