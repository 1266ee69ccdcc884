"""Text of others in Markdown and HTML: it stays text, whatever it holds."""

from __future__ import annotations

import re
from html import escape

from runner.core.text import printable, whole

_MARKS = re.compile(r"[!-$&()*+.:<=>?@\[-`{-~-]")
"""What may mean something in Markdown; a dot and a colon make a link of what looks like an address."""

_UNNAMED = re.compile(r"[^A-Za-z0-9._]+")
"""What a name in a mark has a dash for; so no two dashes are there, which might end the comment."""

ICONS = {"done": "✅", "failed": "❌", "no verdict": "⚠️"}
"""By verdict, as comments show it."""

_MENTION = "@\u200b"
"""An @ that nobody is notified by: a space of no width is after it, as sites look for mentions after decoding."""


def mark(*names: str) -> str:
    """Return the comment by which a report of these runs is found again."""
    short = "+".join(_UNNAMED.sub("-", name[:80]).strip("-") or "run" for name in names)
    return f"<!-- evalcell:{short[:200]} -->"


def html(text: str, limit: int) -> str:
    """Return the text in HTML, on one line, cut."""
    return escape(whole(printable(text, limit)))


def code(text: str, limit: int) -> str:
    """Return the text as HTML inside Markdown: no site looks for mentions, numbers of issues or emoji in `code`."""
    return f"<code>{html(text, limit).replace('@', _MENTION)}</code>" if text else ""


def markdown(text: str, limit: int) -> str:
    """Return the same within a line of Markdown: each mark is an entity, which is never one of Markdown."""
    short = whole(printable(text, limit)).strip()
    return f"<code>{_MARKS.sub(lambda mark: _entity(mark[0]), short)}</code>" if short else ""


def pair(left: str, right: str, limit: int) -> str:
    """Return a row of an HTML table inside Markdown with two texts."""
    return f"<tr><td>{code(left, limit)}</td><td>{code(right, limit)}</td></tr>"


def _entity(mark: str) -> str:
    return f"&#{ord(mark)};" + ("\u200b" if mark == "@" else "")
