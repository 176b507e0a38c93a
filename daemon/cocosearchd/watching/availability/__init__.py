"""Availability of roots and of their files: missing, not mounted, not answering."""
