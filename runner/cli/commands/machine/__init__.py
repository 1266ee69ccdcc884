"""Commands for this machine, its cache, and machines of others."""
