"""Reads indexes of other indexers in the format SCIP: symbols and their occurrences."""
