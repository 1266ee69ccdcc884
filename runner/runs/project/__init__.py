"""`evalcell.toml`: what is run every day, and what it is judged by."""
