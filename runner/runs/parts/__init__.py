"""Datasets that lie in parts: planned, run by several workers, merged, and gone on with."""
