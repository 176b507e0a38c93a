"""Answers about the code graph as text for people."""
