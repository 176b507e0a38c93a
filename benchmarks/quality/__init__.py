"""How good the answers are: annotated queries over pinned repositories, the metric, and a run
through the daemon.

What is not here: how the weights of a profile are fitted (`training/ranking`), and speed
(`benchmarks/lexical.py`).
"""
