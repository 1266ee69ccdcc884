"""Outputs that an audit plants in rows."""
