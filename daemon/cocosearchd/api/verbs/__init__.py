"""Verbs of the engine: one module and one class a family."""
