"""The first process of a box, and how it closes the doors behind it."""
