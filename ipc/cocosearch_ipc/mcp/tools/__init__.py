"""The tools of MCP: their names and parameters, each one call of the engine."""
