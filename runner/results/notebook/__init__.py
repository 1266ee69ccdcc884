"""What a notebook shows: the progress of a run, and a report."""
