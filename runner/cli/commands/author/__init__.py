"""Commands for the author of an evaluator."""
