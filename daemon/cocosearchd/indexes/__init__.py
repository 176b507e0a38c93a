"""The running indexes: starts and finds them, applies their settings, maintains their tables."""
