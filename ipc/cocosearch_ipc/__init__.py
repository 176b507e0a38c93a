"""Front ends: JSON-RPC, MCP and the command line over one port, `protocol.Engine`.

The package knows the shapes of values, not their meaning, and never imports `cocosearchd`.
`cocosearchctl` loads only the standard library.
"""
