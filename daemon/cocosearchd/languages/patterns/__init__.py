"""Finds comments, definitions, tokens and roles of paths by patterns, without a syntax tree."""
