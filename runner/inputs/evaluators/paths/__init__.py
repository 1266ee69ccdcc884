"""Paths into a row, as RFC 9535 has them."""
