"""Answers queries with ranked chunks.

Every query runs through `pipeline`; other modules are its stages. There is no SQL here (see
`store`), no knowledge of languages (see `languages`), and nothing that writes an index.
"""
