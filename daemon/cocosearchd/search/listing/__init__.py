"""Lists of symbols, page by page: the same for both profiles."""
