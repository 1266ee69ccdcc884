"""The first process of a box, and how it gives up its rights."""
