"""The running indexes: started, found by name or place, kept as their settings say, maintained."""
