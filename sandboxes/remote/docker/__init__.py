"""Containers of a local engine, Docker or Podman, as machines."""
