"""Answer queries with ranked chunks. `pipeline` is the one path; other modules are its stages.

There is no SQL here (see `store`), no knowledge of languages (see `languages`), and nothing that
writes an index.
"""
