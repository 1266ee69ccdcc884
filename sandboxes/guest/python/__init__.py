"""Python in a box: a process that forks, and its children."""
