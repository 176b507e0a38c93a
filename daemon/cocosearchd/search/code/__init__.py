"""The ranking profile `code`: one linear score a file over all evidence of the lexical index."""
