"""The command for a pull request on GitHub."""
