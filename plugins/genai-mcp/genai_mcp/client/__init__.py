"""The client: the tools of MCP servers, as tools of the host."""
