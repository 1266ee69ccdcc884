"""Several references of one row."""


def references(wanted: object, found: object) -> list[object]:
    """Each of a list without nulls; but a list is one reference where the output is a list too, or nothing is in it."""
    several = [one for one in wanted if one is not None] if isinstance(wanted, list) else []
    return several if several and not isinstance(found, list) else [wanted]
