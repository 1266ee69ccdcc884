"""Which retrieved contexts are among the relevant ones."""

import json

from templates.parts.levenshtein import similarity


def as_texts(side: object) -> list[str]:
    """Each context as text: an object's `id`, or its text, or else its JSON; white space counts once."""
    items = side if isinstance(side, list) else [] if side is None or side == "" else [side]
    return [" ".join(as_text(item).split()) for item in items]


def as_text(item: object) -> str:
    if isinstance(item, dict):
        keys = ("id", "doc_id", "document_id", "text", "page_content", "content")
        item = next((item[key] for key in keys if item.get(key) not in (None, "")), item)
    return item if isinstance(item, str) else json.dumps(item, ensure_ascii=False, sort_keys=True)


def alike(a: str, b: str, threshold: float) -> bool:
    return a == b or (threshold < 1 and similarity(a, b) >= threshold)
