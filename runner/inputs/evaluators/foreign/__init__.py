"""Scripts that were written for another tool run unchanged. Each tool is a file of `dialects/`. docs/coming-from.md."""
