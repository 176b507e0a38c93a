"""The code graph: definitions, their uses, and what depends on what, resolved at question time."""
