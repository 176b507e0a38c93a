"""The engine as MCP tools and resources, for every transport. The only importer of `fastmcp` and
`mcp`.

`tools` says what an assistant can call and when it should; `text` is the compact form beside the
structured one; `project` finds out which project a client works in; `server` puts them together. No
meaning of search is here.
"""
