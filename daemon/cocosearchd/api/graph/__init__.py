"""Questions about the code graph: the index that is asked, its freshness, texts of lines."""
