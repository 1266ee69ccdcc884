"""Text of others in Markdown and HTML: it stays text, whatever it holds."""

from __future__ import annotations

import re
from html import escape

from runner.text import printable, whole

_MARKS = re.compile(r"[!-$&()*+.:<=>?@\[-`{-~-]")
"""What may mean something in Markdown; a dot and a colon make a link of what looks like an address."""

ICONS = {"done": "✅", "failed": "❌", "no verdict": "⚠️"}
"""By verdict, as comments show it."""

_MENTION = "@\u200b"
"""An @ that nobody is notified by: a space of no width is after it, as sites look for mentions after decoding."""


def html(text: str, limit: int) -> str:
    """The text in HTML, on one line, cut."""
    return escape(whole(printable(text, limit)))


def code(text: str, limit: int) -> str:
    """The text as HTML inside Markdown: no site looks for mentions, numbers of issues or emoji in `code`."""
    return f"<code>{html(text, limit).replace('@', _MENTION)}</code>" if text else ""


def markdown(text: str, limit: int) -> str:
    """The same within a line of Markdown: each mark is an entity, which is never one of Markdown."""
    short = whole(printable(text, limit)).strip()
    return f"<code>{_MARKS.sub(lambda mark: _entity(mark[0]), short)}</code>" if short else ""


def pair(left: str, right: str, limit: int) -> str:
    """A row of an HTML table inside Markdown with two texts."""
    return f"<tr><td>{code(left, limit)}</td><td>{code(right, limit)}</td></tr>"


def _entity(mark: str) -> str:
    return f"&#{ord(mark)};" + ("\u200b" if mark == "@" else "")
