"""Settings from their layers: files, environment, command line, and what a project says of its
index.
"""
