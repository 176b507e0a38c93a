"""Quality of answers: annotated queries over pinned repositories, the metric, and a daemon run.

What is not here: how the weights of a profile are fitted (`training/ranking`), and speed
(`benchmarks/lexical.py`).
"""
