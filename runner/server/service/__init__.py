"""Every operation of the server once, over the store and the pool. HTTP, the page and MCP are thin doors to it."""
