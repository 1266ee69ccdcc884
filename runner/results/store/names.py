"""Names of what is stored. They are data, and never part of a path."""

from __future__ import annotations

import re
from pathlib import PurePath

from runner.core.errors import InputError
from runner.core.text import printable
from runner.inputs.datasets.dataset import SUFFIXES
from runner.inputs.datasets.formats.streams import COMPRESSION_SUFFIXES

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_RUN = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9]{3}(-1)*")
_REFERENCE = re.compile(r"([a-z0-9][a-z0-9._-]{0,63})(?:@([0-9]{1,9}|[0-9a-f]{6,12}|latest))?")


def validate_name(name: str, what: str = "name") -> str:
    """Return the name. Raises InputError if it is none."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(
            f"{what} {printable(str(name), 60)!r}: a name begins with a-z or 0-9, and has up to 64 of a-z, 0-9, `.`, "
            "`_` and `-`"
        )
    return name


def slugify(text: str, otherwise: str = "unnamed") -> str:
    """Return a name out of any text: `My Rows (2)` becomes `my-rows-2`."""
    found = re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-._")[:64].strip("-._")
    return found or otherwise


def dataset_name(name: str) -> str:
    """
    Return the name of a dataset.

    So `store:NAME` is never the name of a file that could be read, nor another dataset by its content.

    Raises:
        InputError: If it is none, ends as a dataset's file does, or is one's digest.
    """
    if validate_name(name, "dataset").endswith((*SUFFIXES, *COMPRESSION_SUFFIXES)):
        raise InputError(f"dataset {name!r}: a name does not end as a file's does; leave {PurePath(name).suffix} out")
    if is_digest(name):
        raise InputError(f"dataset {name!r}: a name is no digest; choose another one")
    return name


def is_digest(text: str) -> bool:
    """Say whether it is as a dataset's digest."""
    return _DIGEST.fullmatch(text) is not None


def is_run(text: str) -> bool:
    """Say whether it is as a run's id."""
    return _RUN.fullmatch(text) is not None


def split_file_name(file_name: str) -> tuple[str, str]:
    """Return a dataset's name and suffix from a file's: `Rows.CSV.gz` is `rows` and `.csv.gz`. Raises InputError."""
    path = PurePath(file_name.replace("\\", "/"))
    suffix, packed = path.suffix.lower(), ""
    if suffix in COMPRESSION_SUFFIXES:
        packed, path = suffix, PurePath(path.stem)
        suffix = path.suffix.lower()
    if suffix not in SUFFIXES or (packed and suffix in (".parquet", ".arrow")):
        raise InputError(
            f"{printable(file_name, 80)} has no suffix of a dataset; name it with one of {', '.join(SUFFIXES)}"
        )
    name = slugify(path.stem)
    while name.endswith((*SUFFIXES, *COMPRESSION_SUFFIXES)):
        name = slugify(PurePath(name).stem)
    return name, suffix + packed


def split(reference: str) -> tuple[str, str | None]:
    """
    Return the name, and the version: a number, the beginning of a hash, or None for the newest.

    Raises:
        InputError: An argument cannot be used.
    """
    found = _REFERENCE.fullmatch(reference) if isinstance(reference, str) else None
    if found is None:
        raise InputError(
            f"{printable(str(reference), 80)!r} names no stored evaluator; write NAME, NAME@3, NAME@ and 6 or more "
            "digits of a version's hash, or NAME@latest"
        )
    return found[1], None if found[2] == "latest" else found[2]
