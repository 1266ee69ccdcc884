"""Commands that score a dataset."""
