"""Everything that runs on the other side of a wall: the standard library alone, shipped as this one package."""
