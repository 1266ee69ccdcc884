"""Make text from scripts and providers safe to keep: valid UTF-8 of bounded length."""


def clean(text: str, most: int | None = None) -> str:
    """Return the text with lone surrogates as U+FFFD, cut with a mark after `most` characters."""
    if most is not None and len(text) > most:
        text = text[: max(0, most - 1)] + "…"
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
