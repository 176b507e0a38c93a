"""The ASGI application of both listeners, its guards and the sockets it is served on."""
