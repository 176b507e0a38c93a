"""Forms of text that mean the same: of paths, and of Unicode. Pure."""
