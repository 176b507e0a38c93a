"""Worker processes for untrusted bytes: framed requests over a socket, and limits on their cost.

A crash, a hang or a memory bomb ends the worker process, never the process that started it. This
unit moves bytes only. The units above (`indexing`, `search`) share it; they define the content of
requests and the computation of a worker.
"""
