"""The code graph: definitions, uses and dependencies, resolved when a question is asked."""
