"""What runs in a container of a local engine before any script: sent as text, it imports the standard library alone."""
