"""Resolution: from a use of a name to the definitions that it may mean, and back. Pure."""
