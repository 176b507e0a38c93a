"""Comments and definitions found by patterns in lines of text, without a syntax tree."""
