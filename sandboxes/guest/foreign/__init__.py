"""What stands around a script that was written for another tool. It travels as text, after that of `frame`."""
