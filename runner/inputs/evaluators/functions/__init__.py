"""A Python function as an evaluator: its source, and that of what it uses, become a script."""
