"""The process and its machine: logs, supervision, deadlines, careful file access, service
managers.
"""
