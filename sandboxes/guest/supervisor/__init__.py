"""Watch a box from outside: here and on machines of providers."""
