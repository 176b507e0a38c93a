"""Verbs of the engine: one module and one class for each family."""
