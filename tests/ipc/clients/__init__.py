"""Support for foreign clients: a TypeScript SDK session, and fixtures of the conformance suite."""
