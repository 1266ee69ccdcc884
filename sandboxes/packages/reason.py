"""What uv says when it fails, cut to what helps: one line, no addresses, no drawing."""

from __future__ import annotations

import re

LONGEST = 420
"""Characters of the reason itself."""

HINT = 220

_URL = re.compile(r"\b(?:[a-z][a-z+]*)://[^\s`'\")]+", re.IGNORECASE)
_HOST = re.compile(r"://(?:[^/@\s]*@)?([^/:\s`'\")]+)")
_DRAWING = re.compile("[\u2500-\u257f\u25b6\u00d7]+")
_PREFIX = re.compile(r"^\s*(?:error|cause|warning)\s*:\s*", re.IGNORECASE | re.MULTILINE)
_SOLUTION = re.compile(r"No solution found when resolving dependencies:? ?")
_GENERAL = re.compile(
    r"Request failed after.*|Failed to fetch: the package index|"
    r"error sending request for url.*|client error.*|tcp connect error"
)
_END = re.compile(r",? we can conclude that your requirements are unsatisfiable\.?")
_NETWORK = re.compile(
    r"network was disabled|error sending request|Failed to fetch|Request failed|Could not connect|dns error|"
    r"tcp connect|timed out|tunnel error|peer certificate",
    re.IGNORECASE,
)
_PARSE = re.compile(r"Couldn't parse|Failed to parse", re.IGNORECASE)


def of_network(errors: str) -> bool:
    """Whether the index could not be reached, so that nothing is known about the packages."""
    return bool(_NETWORK.search(errors))


def of_caller(code: int, errors: str) -> bool:
    """Whether what was asked for is at fault: uv's exit code 1, or a line that it cannot read."""
    return code == 1 or bool(_PARSE.search(errors))


def cut(errors: str) -> str:
    """uv's reason in one line. It may be empty."""
    body, *hints = re.split(r"(?m)^\s*hint:", _plain(errors))
    causes = [_SOLUTION.sub("", " ".join(part.split())).rstrip(".") for part in re.split(_PREFIX, body)]
    causes = list(dict.fromkeys(_END.sub("", one) for one in causes if one))  # each once
    causes = [one for one in causes if not _GENERAL.fullmatch(one)] or causes[-1:]
    useful = [" ".join(hint.split()) for hint in hints]
    # That wheels are required is our doing; that none of the existing ones fits is news.
    unfit = next((hint for hint in useful if "we only found wheels" in hint), "")
    text = _shorter("; ".join(causes), last_only=bool(unfit))
    said = unfit or next(iter(useful), "")
    return f"{text} ({_cut(said, HINT)})" if said else text


def _plain(errors: str) -> str:
    hosts = {host for host in _HOST.findall(errors) if "." in host}
    text = _DRAWING.sub(" ", _URL.sub("the package index", errors))
    for host in hosts:
        text = text.replace(host, "the package index")
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def _shorter(text: str, *, last_only: bool) -> str:
    """A chain of reasons: the first and the last say most."""
    if len(text) <= LONGEST:
        return text
    parts = re.split(r"(?<=\.) And because ", text)
    if len(parts) == 1:
        return _cut(text, LONGEST)
    last = f"because {parts[-1]}"
    return _cut(last, LONGEST) if last_only else f"{_cut(parts[0], LONGEST // 2)} {_cut(last, LONGEST // 2)}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip(" .…") + " …"
