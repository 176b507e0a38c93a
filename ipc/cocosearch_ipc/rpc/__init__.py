"""JSON-RPC 2.0: the dispatcher, the table of methods, the shapes of requests and replies."""
