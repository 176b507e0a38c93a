"""Answers one question from many small indexes.

All indexes are scored together. Only those that may add hits are ranked.
"""
