"""Rerankers of the candidates of `classic`. `base` has the interface; each reranker is one module."""
