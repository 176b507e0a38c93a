"""Lists symbols page by page; the lists are the same for both profiles."""
