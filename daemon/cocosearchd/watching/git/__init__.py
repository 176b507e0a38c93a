"""Repositories read without trusting them: git is started in one place only."""
