"""Warm sandboxes in worker processes, for a server's dry runs and runs."""
