"""Worker processes for work on untrusted bytes: framed requests over a socket, and bounds on what
one may cost.

A crash, a hang or a memory bomb ends one such process, never the one that started it. This unit
moves bytes only: what is in a request, and what a worker computes, is known to the units above
(`indexing`, `search`), which share this one.
"""
