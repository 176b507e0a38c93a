"""Which paths are in: built-in exclusions, git's ignore rules, the user's patterns."""
