"""Deno in a box: how it is started, and what runs in it."""
