"""Files as rows, format by format."""
