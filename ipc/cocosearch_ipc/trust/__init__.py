"""Who may speak to the daemon: token, owner of directories and ports, TLS. Standard library
only.
"""
