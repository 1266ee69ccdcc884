"""The addresses below /v1: each is one call of the service."""
