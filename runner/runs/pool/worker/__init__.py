"""The worker process, which holds opened sandboxes and no token. It imports neither the database nor the server."""
