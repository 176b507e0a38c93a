"""Watching: the scope of a root, the ways to notice changes, and the dirty set.

Hints only make paths dirty. Scans compare the disk with the store. The dirty set hands out dirty
paths and forgets each only when it has been applied. Nothing here parses a file or writes to the
index.
"""
