"""Equivalent forms of texts: of paths, and of Unicode. Pure."""
