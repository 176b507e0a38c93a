"""Stages of an answer after ranking: context, files, related chunks, merging, explanations."""
