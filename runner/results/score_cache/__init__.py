"""Scores of earlier runs, so that a row is not run again: what they depend on, where they are kept."""
