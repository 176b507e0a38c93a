"""Answers one question from many small indexes: scores them together, ranks those that may add
hits.
"""
