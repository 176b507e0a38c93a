"""The ASGI application of both listeners, its guards and its sockets."""
