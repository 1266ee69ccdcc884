"""What a Python script's text tells, without running it."""
