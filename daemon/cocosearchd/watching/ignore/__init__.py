"""The scope of a root: built-in exclusions, git's ignore rules, the user's patterns."""
