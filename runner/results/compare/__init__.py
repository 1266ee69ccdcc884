"""Compares two runs of one dataset, row by row: better, no worse, worse, or not enough evidence."""
