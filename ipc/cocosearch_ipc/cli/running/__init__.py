"""Verbs that run the daemon: start, stop, service, status, logs, `top` and the MCP bridge."""
