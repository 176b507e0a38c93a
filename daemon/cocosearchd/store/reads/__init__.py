"""Reads of chunks and files for searches, lists and the index in memory. Nothing is written."""
