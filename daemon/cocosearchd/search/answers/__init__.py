"""Parts of an answer beside ranking: context, files, related chunks, merging, explanations."""
