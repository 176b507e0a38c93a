"""Worker processes for work on untrusted bytes: framed requests over a socket, and bounds on what
one may cost.

A crash, a hang or a memory bomb ends the worker process, never the process that started it. This
unit moves bytes only. The units above (`indexing`, `search`) share it; they define the content of
requests and the computation of a worker.
"""
