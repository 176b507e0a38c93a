"""Queries for imports, uses and variables, `<language>.scm`, and the rules of what they capture."""
