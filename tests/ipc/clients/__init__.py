"""What foreign clients need: a session for the TypeScript SDK, and what the conformance suite
expects of a server.
"""
