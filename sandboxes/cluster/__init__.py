"""Sandboxes on the machines of a Ray cluster: `on_cluster` wraps any sandbox of a machine."""
