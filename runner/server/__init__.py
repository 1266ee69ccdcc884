"""The server: HTTP and the page, thin doors to the service."""
