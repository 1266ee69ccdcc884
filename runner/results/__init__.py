"""What is kept of a run, and read again: files, store, score cache, comparisons, reports."""
