"""What is watched: which paths of a root are in, how changes are noticed, and which files are dirty
because of it.

Hints only make paths dirty; scans compare the disk with the store; the reconciler hands out what is
dirty and forgets it only when it has been applied. Nothing here parses a file, and nothing here
writes to the index.
"""
