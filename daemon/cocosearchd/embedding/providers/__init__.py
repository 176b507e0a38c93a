"""Providers of vectors, one module each; `factory` opens them by name."""
