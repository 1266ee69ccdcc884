"""Worked examples: what an evaluator is expected to return, and whether it does."""
