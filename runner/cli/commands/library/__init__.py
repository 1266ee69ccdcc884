"""Commands for what is kept: evaluators, datasets, runs."""
