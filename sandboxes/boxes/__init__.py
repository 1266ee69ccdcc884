"""Boxes: processes isolated by this machine's kernel, for whatever program runs in them."""
