"""Where hints come from: one module for each way to be told of changes, and the choice between
them.

Backends know directories and events. They know neither ignore rules nor the index, and they prove
nothing.
"""
