"""Verbs that ask: `query` with all of its options, indexes and their files, the figures of
`bench`.
"""
