"""Text from scripts and providers, made safe to keep: valid UTF-8, and no longer than asked."""


def clean(text: str, most: int | None = None) -> str:
    """Lone surrogates become U+FFFD; what is over `most` characters is cut, with a mark."""
    if most is not None and len(text) > most:
        text = text[: max(0, most - 1)] + "…"
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
