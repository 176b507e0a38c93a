"""Speed and quality, measured on the real programs.

Every script prints machine, load, command and n beside its figures.
"""
