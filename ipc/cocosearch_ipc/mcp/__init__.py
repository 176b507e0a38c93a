"""The engine as MCP tools and resources, for every transport.

`tools` has the tools; `compact_text` formats their answers; `client_project` detects the client's
project; `server` puts them together. Only this package imports `fastmcp` and `mcp`. It knows
nothing about the meaning of a search.
"""
