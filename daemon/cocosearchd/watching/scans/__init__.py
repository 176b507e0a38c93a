"""Scans: when a root is compared with the stored files, and how."""
