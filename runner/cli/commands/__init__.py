"""The commands, a file each. They are imported when they are called."""
