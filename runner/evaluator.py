"""A script on disk -> Evaluator: header, signature, version. Nothing of it is run."""

from __future__ import annotations

import os
import re
import stat
from hashlib import sha256
from pathlib import Path

import templates
from runner.errors import EvaluatorError
from runner.header import read_header
from runner.shown import close_name, printable, shown, suggestion, whole
from runner.signature import read_signature
from runner.types import Evaluator

MAX_SOURCE = 256 * 1024
"""Bytes of a script."""
MAX_DESCRIPTION = 4000
"""Characters."""

_COOKIE = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_UTF8 = ("utf-8", "utf8", "u8", "utf-8-sig")
_JAVASCRIPT = (".tsx", ".mts", ".cts", ".js", ".mjs", ".cjs", ".jsx")


def read_evaluator(path: str | os.PathLike[str]) -> Evaluator:
    """Reads a Python script; its name is the file's, without the suffix. Raises EvaluatorError."""
    path = Path(path)
    where = printable(whole(str(path)))
    suffix = path.suffix.lower()
    if suffix == ".ts":
        raise EvaluatorError(
            f"{where}: TypeScript evaluators need the deno sandbox, which this version does not have yet"
        )
    if suffix != ".py":
        _refuse_name(path, where)
    return parse_evaluator(_read(path, where), whole(path.stem), where)


def parse_evaluator(source: bytes | str, name: str, where: str | None = None) -> Evaluator:
    """
    A script's text as an evaluator. `where` is its file's name in messages.

    The version is that of the text without its byte order mark and with line feeds alone, so that it does not
    depend on the system a file was saved on. Raises EvaluatorError.
    """
    where = where or name
    text = _text(source, where)
    _refuse_cookie(text, where)
    header = read_header(text, where)
    signature = read_signature(text, where)
    names = [parameter.name for parameter in signature.parameters]
    for mapped in (*header.mapping.paths, *header.mapping.literals):
        if mapped not in names and not signature.accepts_any:
            raise EvaluatorError(
                f"{where}: the header maps `{printable(mapped, 60)}`, which is no parameter of "
                f"evaluate({', '.join(names)}){suggestion(mapped, names)}"
            )
    description = header.description if header.description is not None else signature.docstring
    return Evaluator(
        name=whole(name),
        source=text,
        parameters=signature.parameters,
        accepts_any=signature.accepts_any,
        description=description[:MAX_DESCRIPTION],
        requires_python=header.requires_python,
        packages=header.packages,
        outputs=header.outputs,
        mapping=header.mapping,
        version=sha256(text.encode()).hexdigest()[:12],
    )


def _text(source: bytes | str, where: str) -> str:
    try:
        data = source.encode() if isinstance(source, str) else source
    except UnicodeEncodeError as error:
        raise EvaluatorError(f"{where}: half of a surrogate pair at character {error.start + 1}") from None
    if len(data) > MAX_SOURCE:
        raise EvaluatorError(f"{where} is larger than 256 KB; an evaluator is one script, keep data elsewhere")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise EvaluatorError(f"{where} is UTF-16; save it as UTF-8")
    if (at := data.find(b"\0")) >= 0:
        raise EvaluatorError(f"{where}: a null byte at byte {at + 1}; is it a script?")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise EvaluatorError(f"{where} is not UTF-8 at byte {error.start + 1}; save it as UTF-8") from None
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _refuse_cookie(text: str, where: str) -> None:
    for number, line in enumerate(text.split("\n", 2)[:2], 1):
        if cookie := _COOKIE.match(line):
            if cookie[1].lower().replace("_", "-") not in _UTF8:
                declared = shown(cookie[1], 40)
                raise EvaluatorError(f"{where}:{number}: the encoding is declared as {declared}; save it as UTF-8")
            return
        if line.strip() and not line.lstrip().startswith("#"):
            return


def _refuse_name(path: Path, where: str) -> None:
    if path.is_dir():
        raise EvaluatorError(f"{where} is a folder; name a script in it")
    also = "; JavaScript cannot be run" if path.suffix.lower() in _JAVASCRIPT else ""
    raise EvaluatorError(f"{where}: an evaluator is a Python script named *.py{also}")


def _read(path: Path, where: str) -> bytes:
    try:
        about = path.stat()
        if stat.S_ISDIR(about.st_mode):
            raise IsADirectoryError
        if not stat.S_ISREG(about.st_mode):
            raise EvaluatorError(f"{where} is not a regular file; copy the script into one")
        with path.open("rb") as file:
            return file.read(MAX_SOURCE + 1)
    except FileNotFoundError:
        raise EvaluatorError(f"no script {where}{close_name(path) or _template(path.stem)}") from None
    except IsADirectoryError:
        raise EvaluatorError(f"{where} is a folder; name a script in it") from None
    except EvaluatorError:
        raise
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise EvaluatorError(f"{where} cannot be opened: {why}") from None


def _template(stem: str) -> str:
    near = suggestion(stem.lower().replace("_", "-"), templates.names())
    return near.replace("did you mean", "did you mean the template")
