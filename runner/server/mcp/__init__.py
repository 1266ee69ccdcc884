"""MCP: the service as tools for agents, on standard input and output or at /mcp of the server."""
