"""One question to many small indexes: scored together, and ranked where they may add hits."""
