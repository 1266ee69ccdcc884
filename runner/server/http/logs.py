"""The server's log: lines for people, or JSON lines with the ids of runs and rows."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Literal

from runner.core.text import printable

Format = Literal["text", "json"]
_LONGEST = 1000  # characters of what may be a script's words, or a worker's
_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


class JsonLines(logging.Formatter):
    """One object a line: time, level, what happened, and what was said of it with `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """Called by logging."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        found = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "log": record.name,
            "message": record.getMessage(),
        }
        found |= {name: value for name, value in vars(record).items() if name not in _USUAL}
        if record.exc_info:
            found["traceback"] = self.formatException(record.exc_info)
        return json.dumps(found, default=str, ensure_ascii=True)


class TextLines(logging.Formatter):
    """A line for people; a traceback only of a fault of the server."""

    def format(self, record: logging.LogRecord) -> str:
        """Called by logging."""
        more = " ".join(
            f"{name}={printable(str(value), _LONGEST)}" for name, value in vars(record).items() if name not in _USUAL
        )
        text = f"evalcell: {record.getMessage()}" + (f" ({more})" if more else "")
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def begin(form: Format, *, verbose: bool) -> logging.Handler:
    """Write the logs of evalcell and of its HTTP server to standard error from now on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    for name in ("evalcell", "uvicorn"):
        log = logging.getLogger(name)
        log.setLevel(logging.DEBUG if verbose and name == "evalcell" else logging.INFO)
        log.addHandler(handler)
        log.propagate = False
    # Each request has a line of our own, without what its address asks for.
    logging.getLogger("uvicorn.access").setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    # Why a reply broke off has a line of ours.
    logging.getLogger("uvicorn.error").addFilter(
        lambda record: "without completing response" not in record.getMessage()
    )
    return handler
