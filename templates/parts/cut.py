"""A text as an explanation shows it."""


def cut(text: str) -> str:
    """At most 100 characters, with three dots where there were more."""
    return text if len(text) <= 100 else text[:100] + "..."
