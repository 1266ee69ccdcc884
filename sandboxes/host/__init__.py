"""This machine and this process: programs, children, files, variables, the event loop."""
