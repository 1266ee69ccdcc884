"""Isolation by this machine's kernel, for whatever program is to run in it: boxes, and what they need of the host."""
