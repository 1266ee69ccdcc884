"""What is said of a script's end, and kept out of it."""
