"""Immutable segments of an index: built, merged, kept on disk, with the live files of each."""
