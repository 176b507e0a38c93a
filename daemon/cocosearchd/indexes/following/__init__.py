"""Followed indexes: those of other daemons on the same PostgreSQL, read without their disks."""
