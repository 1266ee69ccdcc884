"""Watch a box from outside, on this host and on providers' machines."""
