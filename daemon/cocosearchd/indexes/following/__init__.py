"""Followed indexes: indexes of other daemons on the same PostgreSQL, read without their disks."""
