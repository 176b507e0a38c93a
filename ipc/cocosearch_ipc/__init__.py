"""The front ends: JSON-RPC, MCP and the command line over one port, `protocol.Engine`.

Knows shapes, not meanings, and never imports `cocosearchd`. What `cocosearchctl` loads is the
standard library only.
"""
