"""`cocosearchctl`: a client of the daemon that imports the standard library only.

`main` answers a plain `query` before anything heavy is imported; `verbs` is everything else. Knows
no meaning of search.
"""
