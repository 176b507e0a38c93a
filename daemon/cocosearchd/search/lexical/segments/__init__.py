"""Immutable segments of an index: building, merging, files on disk, and live files."""
