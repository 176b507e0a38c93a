"""The ranking profile `code`: one linear score per file over all signals of the lexical index."""
