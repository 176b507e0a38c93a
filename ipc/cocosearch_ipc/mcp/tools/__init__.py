"""The MCP tools: their names and parameters. Each tool makes one call of the engine."""
