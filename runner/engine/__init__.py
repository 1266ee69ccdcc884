"""The engine: runs the cases of a dataset through a sandbox and yields their results in order."""
