"""Comments, definitions, tokens and kinds of files, found by patterns without a syntax tree."""
