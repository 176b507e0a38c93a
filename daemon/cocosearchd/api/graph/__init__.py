"""Questions about the code graph: choice of the index, freshness, texts of lines."""
