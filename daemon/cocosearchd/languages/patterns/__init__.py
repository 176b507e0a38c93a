"""Comments, definitions, tokens and roles of paths, found by patterns without a syntax tree."""
