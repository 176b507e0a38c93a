"""The process and its machine: logs, supervision, deadlines, file access, service managers."""
