"""The server: the tools and the features of a host, as tools of an MCP server."""
