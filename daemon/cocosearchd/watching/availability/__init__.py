"""Whether a root and its files can be there at all: missing, unmounted, not answering."""
