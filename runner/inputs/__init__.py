"""What goes into a run: evaluators in every form, and datasets in every format."""
