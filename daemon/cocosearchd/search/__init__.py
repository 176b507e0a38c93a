"""The read flow: a question in, ranked chunks out. `pipeline` is the one path; the other modules
are its stages.

Here is no SQL (that is `store`), no knowledge of languages (`languages`), and nothing that writes
an index.
"""
