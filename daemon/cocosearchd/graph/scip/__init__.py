"""Indexes of other indexers in the format SCIP: symbols and where they occur."""
