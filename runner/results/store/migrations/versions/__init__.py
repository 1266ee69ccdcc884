"""One file for each revision. They stay as they are: a store of any earlier one may come."""
