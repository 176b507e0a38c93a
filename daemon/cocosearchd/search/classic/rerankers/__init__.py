"""Rerankers of the candidates of `classic`. `base` has the interface; each is one module."""
