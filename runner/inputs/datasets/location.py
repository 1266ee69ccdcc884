"""Where datasets lie: files of this machine, and objects behind URLs, which fsspec reads."""

from __future__ import annotations

import glob
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from io import BufferedReader
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from runner.core.errors import DatasetError
from runner.core.text import printable, whole
from runner.inputs.datasets.formats.streams import Filter

SCHEMES = {"s3": "s3fs", "gs": "gcsfs"}
"""The schemes that are read, and the package that each needs."""
MOST_FILES = 10_000
"""Files of one dataset."""
MOST_LISTED = 1_000_000
"""Objects that begin as a pattern does, which are looked at for it."""
MOST_BYTES = 1 << 50

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_PATTERN = re.compile(r"[*?\[]")
_BLOCK = 8 << 20  # bytes of one request
_REASON = 200


class File(NamedTuple):
    """A file of a dataset. `stamp` is another one once its content changes."""

    path: str
    size: int
    stamp: str


def is_url(path: str) -> bool:
    """Return true for what is read by fsspec, or refused by name, and not looked for on this machine."""
    return _URL.match(path) is not None


def is_pattern(path: str) -> bool:
    """Return true for a dataset of several files, such as `rows-*.parquet`: no file has this very name."""
    return _PATTERN.search(path) is not None and (is_url(path) or not os.path.lexists(path))


def find_files(pattern: str) -> list[File]:
    """
    Return the files that a pattern matches, by name; at most 10,000.

    Raises DatasetError, also where there is none.
    """
    shown = printable(whole(pattern))
    if is_url(pattern):
        found = _remote_files(pattern)
    else:
        found = []
        for path in glob.iglob(pattern, recursive=True):
            if os.path.isfile(path):
                found.append(file_of(path))
                _refuse_many(len(found), shown)
    if not found:
        raise DatasetError(f"no file matches {shown}; put the pattern in quotes, and check the path")
    return sorted(found)


def file_of(path: str) -> File:
    """Return the file at a path or URL. Raises DatasetError."""
    shown = printable(whole(path))
    if is_url(path):
        system = _system(path)
        with _failures(shown):
            return _as_file(path, system.info(path))
    try:
        about = os.stat(path)
    except OSError as error:
        raise DatasetError(f"{shown} cannot be read: {error.strerror}; check the path") from None
    return File(path, about.st_size, f"{about.st_size}-{about.st_mtime_ns}")


def open_url(url: str) -> BufferedReader:
    """Return an object as a file. Raises DatasetError; reading raises OSError."""
    system = _system(url)
    with _failures(printable(whole(url))):
        return BufferedReader(_Raw(system.open(url, "rb", block_size=_BLOCK, cache_type="readahead")), 1 << 16)


def open_file(path: str) -> BufferedReader:
    """Return what is at a path or URL, to be read. Raises OSError for a path, DatasetError for a URL."""
    return open_url(path) if is_url(path) else open(path, "rb")


def first_bytes(url: str, size: int) -> bytes:
    """Return so many bytes at the beginning of an object, or all that it has. Raises DatasetError."""
    system, shown = _system(url), printable(whole(url))
    with _failures(shown):
        found: bytes = system.cat_file(url, start=0, end=size)
        return found


def _remote_files(pattern: str) -> list[File]:
    """All that lies in the pattern's folder, and begins as it does, is listed, and nothing else."""
    shown = printable(whole(pattern))
    folder, _, name = pattern.rpartition("/")
    if _PATTERN.search(folder) or folder.endswith(":/"):
        raise DatasetError(
            f"{shown}: only the last part of a URL may be a pattern; write s3://bucket/folder/rows-*.jsonl"
        )
    begins = _PATTERN.split(name)[0]
    system, matches = _system(pattern), _translated(name)
    with _failures(shown):
        found = []
        for count, (last, about) in enumerate(_listed(system, folder, begins), 1):
            if count > MOST_LISTED:
                raise DatasetError(
                    f"{shown}: more than {MOST_LISTED:,} objects begin with {printable(begins) or 'any name'} there; "
                    "keep those of the dataset in a folder of their own"
                )
            if last and matches.fullmatch(last):
                found.append(_as_file(f"{folder}/{last}", about))
                _refuse_many(len(found), shown)
    return found


def _listed(system: Any, folder: str, begins: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """
    The objects of a folder with such a name, each with what is known of it. Those of S3 come page by page.

    What costs as much as an object, and is none, has no name: a folder, and what an empty page could have had.
    """
    if not folder.lower().startswith("s3:"):
        for path, about in system.find(folder, maxdepth=1, withdirs=False, detail=True, prefix=begins).items():
            yield path.rpartition("/")[2], about
        return
    bucket, key, _ = system.split_path(folder)
    above = f"{key}/" if key else ""
    asked = {"Bucket": bucket, "Prefix": above + begins, "Delimiter": "/"}
    while True:
        page = system.call_s3("list_objects_v2", **asked)
        for about in page.get("Contents", ()):
            if last := about["Key"][len(above) :]:
                yield last, about | {"size": about["Size"]}
        for _ in range(len(page.get("CommonPrefixes", ())) or (0 if page.get("Contents") else 1000)):
            yield "", {}
        if not page.get("IsTruncated"):
            return
        asked["ContinuationToken"] = page["NextContinuationToken"]


def _translated(name: str) -> re.Pattern[str]:
    import fnmatch

    return re.compile(fnmatch.translate(name))


def _refuse_many(count: int, shown: str) -> None:
    if count > MOST_FILES:
        raise DatasetError(f"{shown} matches more than {MOST_FILES:,} files; join them, or run some at a time")


def _as_file(url: str, about: dict[str, Any]) -> File:
    size = about.get("size")
    if not isinstance(size, int) or not 0 <= size <= MOST_BYTES:
        raise DatasetError(f"{printable(whole(url))}: its size is not known; name an object, not a folder")
    marks = (about.get(name) for name in ("ETag", "etag", "md5Hash", "generation", "LastModified", "updated"))
    mark = next((str(one).strip('"') for one in marks if one), "")
    return File(url, size, f"{size}-{printable(mark, 100)}")


def _system(url: str) -> Any:
    """fsspec's file system for a URL, with the credentials of the environment. Raises DatasetError."""
    shown, found = printable(whole(url)), _URL.match(url)
    scheme = found[1].lower() if found else ""
    if scheme not in SCHEMES:
        known = " and ".join(f"{name}://" for name in SCHEMES)
        raise DatasetError(f"{shown}: datasets are read from {known}, and not from {scheme}://; download it first")
    if "@" in urlsplit(url).netloc or "?" in url.partition("/")[2].partition("/")[2].partition("/")[0]:
        # It would stand in the manifest, and in messages.
        raise DatasetError("a URL with a password in it is refused; set the variables of your provider instead")
    if find_spec("fsspec") is None or find_spec(SCHEMES[scheme]) is None:
        raise DatasetError(f"{shown}: {scheme}:// needs {SCHEMES[scheme]}; run: pip install 'evalcell[remote]'")
    import fsspec  # here: few datasets are elsewhere

    # Without credentials gcsfs warns of what it tries besides, with each object.
    logging.getLogger(SCHEMES[scheme]).setLevel(logging.ERROR)
    with _failures(shown):
        # Listings are asked for once, and must not be those of a run before.
        return fsspec.filesystem(scheme, use_listings_cache=False)


@contextmanager
def _failures(shown: str) -> Iterator[None]:
    try:
        yield
    except DatasetError:
        raise
    except FileNotFoundError:
        raise DatasetError(f"no dataset {shown}; check the URL") from None
    except PermissionError:
        raise DatasetError(
            f"{shown} may not be read with the credentials that there are; set the variables of your provider"
        ) from None
    except Exception as error:  # each file system has exceptions of its own
        raise DatasetError(f"{shown} cannot be read: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    return printable(" ".join(str(error).split()) or type(error).__name__, _REASON)


class _Raw(Filter):
    """A file of fsspec, whose failures are OSErrors."""

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def some(self, size: int) -> bytes:
        try:
            data: bytes = self._file.read(size)
        except Exception as error:
            raise OSError(_reason(error)) from None
        return data
