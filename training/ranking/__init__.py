"""How `code_weights.json` is made: signals of annotated queries over pinned repositories, and a fit
of them.

What is not here: the annotations and the metric (`benchmarks/quality`), and the embedding model
(`training`).
"""
