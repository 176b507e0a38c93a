"""What may reorder the candidates of `classic` after fusion. `base` says the port; each reranker is
one module.
"""
