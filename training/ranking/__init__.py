"""Makes `code_weights.json`: a fit of the signals of annotated queries over pinned repositories.

What is not here: the annotations and the metric (`benchmarks/quality`), and the embedding model
(`training`).
"""
