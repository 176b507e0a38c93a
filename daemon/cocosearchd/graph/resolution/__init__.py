"""Resolution finds the definitions that a use of a name may mean, and the uses of a definition.

Pure.
"""
