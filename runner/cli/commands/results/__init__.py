"""Commands that read results again."""
