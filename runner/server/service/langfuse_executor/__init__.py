"""Calls an evaluator of Langfuse as its own executor does, for its server."""
