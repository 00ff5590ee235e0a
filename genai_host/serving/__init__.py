"""Parts from which HTTP APIs are made; independent of the server."""
