"""Rows of files and chunks: how they are compared, written, retained and read."""
