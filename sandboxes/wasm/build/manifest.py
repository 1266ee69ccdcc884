"""`guest.json`: what the guest was built from, and hashes of its files."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from .pins import PROJECT, PYTHON_TOOLS, pinned_version

FORMAT = 1
MANIFEST = "guest.json"
CODE = "code.wasm"
MEMORY = "memory.wasm"

SOURCES = Path("sandboxes/guest/wasm")
HARNESS = Path("sandboxes/guest/harness.py")
"""Shared with other sandboxes; in the image it is `HARNESS_NAME`, beside the guest's own sources."""
HARNESS_NAME = "guest_harness.py"
_BUILD = Path("sandboxes/wasm/build")
_ENCODE = Path("sandboxes/wasm/encode.py")
_SOURCE_SUFFIXES = (".py", ".wit", ".wat")


@dataclass(frozen=True)
class BuiltFile:
    """`sha256` in hexadecimal, `size` in bytes."""

    sha256: str
    size: int

    @classmethod
    def of(cls, content: bytes) -> "BuiltFile":
        return cls(hashlib.sha256(content).hexdigest(), len(content))


@dataclass(frozen=True)
class Manifest:
    inputs: str
    """`input_hash()` of its sources."""
    python: str
    """The guest's own version."""
    componentize_py: str
    binaryen: str
    memory_bytes: int
    """The memory's initial size."""
    files: dict[str, BuiltFile]
    format: int = FORMAT

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2, sort_keys=True) + "\n"


def source_files() -> list[Path]:
    """Return the guest's sources, relative to `SOURCES`, sorted."""
    folder = PROJECT / SOURCES
    return sorted(path.relative_to(folder) for path in _files(folder) if path.suffix in _SOURCE_SUFFIXES)


def input_hash(project: Path = PROJECT) -> str:
    """SHA-256 of everything that decides the guest's content: its sources, this package, the tools' versions."""
    digest = hashlib.sha256()
    for folder in (SOURCES, _BUILD):
        for path in sorted(_files(project / folder)):
            if path.suffix in _SOURCE_SUFFIXES:
                _add(digest, path.relative_to(project).as_posix(), path.read_bytes())
    for path in (HARNESS, _ENCODE):
        _add(digest, path.as_posix(), (project / path).read_bytes())
    for tool in PYTHON_TOOLS:
        _add(digest, tool, pinned_version(tool).encode())
    return digest.hexdigest()


def is_current(output: Path, inputs: str) -> bool:
    """Say whether `output` holds a complete guest built from these inputs."""
    try:
        manifest = json.loads((output / MANIFEST).read_bytes())
        return (
            manifest["format"] == FORMAT
            and manifest["inputs"] == inputs
            and all(
                manifest["files"][name] == asdict(BuiltFile.of((output / name).read_bytes())) for name in (CODE, MEMORY)
            )
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def _add(digest: "hashlib._Hash", name: str, content: bytes) -> None:
    """Add a file to the digest, lengths first, so that no two different sets of files give the same bytes."""
    digest.update(f"{len(name)}:{name}{len(content)}:".encode())
    digest.update(content)
