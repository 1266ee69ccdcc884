"""Scoring: normalising what a script returned, summing up a run, judging it by gates."""
