"""Datasets: rows of any supported file, or of any iterable, as cases."""
