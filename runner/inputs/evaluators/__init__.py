"""Evaluators: finding one, reading its script, and binding its parameters to a row."""
