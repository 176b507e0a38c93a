"""Verbs about the code graph: definitions, uses, calls, imports and the impact of changes."""
