"""One file a tool: how its scripts are known, and the part that calls them."""
