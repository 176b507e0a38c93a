"""Rows of files and chunks: how they are compared, written and retained."""
