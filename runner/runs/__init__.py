"""A run from its prepared request to its report: of one dataset, of two that are compared, of what the store has."""
