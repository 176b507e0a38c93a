"""Access control: token, owners of directories and ports, TLS. Standard library only."""
