"""The report as one HTML file, which loads nothing."""
