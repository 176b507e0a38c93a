"""Questions to the code graph: pure functions over the files of one moment."""
