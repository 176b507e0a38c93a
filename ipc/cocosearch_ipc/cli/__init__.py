"""`cocosearchctl`: a client of the daemon that imports only the standard library.

`main` answers a plain `query` before it imports anything heavy; `parser` knows all other verbs. The
package knows nothing about the meaning of a search.
"""
