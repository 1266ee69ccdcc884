"""The user's files at a provider: whole and unchanged in every machine, for scripts to read; or nothing is judged."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandboxes import SandboxConfig, SandboxUnavailableError, UnsupportedConfigError
from sandboxes.host.tree import members
from sandboxes.remote.e2b.provider import E2BProvider, E2BSandbox
from sandboxes.remote.provider import Command, CommandResult, Machine, OnOutput, UnreachableError
from sandboxes.remote.retry import Pauses
from sandboxes.remote.upload import MOST, PIECE, Files
from tests.remote.shelf import Shelf
from tests.remote.trying import Trying, at
from tests.remote.ways import EACH_WAY, Way, ask, rows

pytestmark = pytest.mark.timeout(60)

SCRIPT = """
import hashlib, os
def digest(name):
    variable, slash, below = name.partition("/")
    with open(os.environ[variable] + slash + below, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()
def allowed(do, *arguments):
    try:
        do(*arguments)
    except OSError:
        return False
    return True
def evaluate(output):
    a, folder = os.environ["A"], os.path.dirname(os.environ["A"])
    assert {name: digest(name) for name in EXPECTED} == EXPECTED
    assert not allowed(open, a, "ab") and not allowed(open, folder + "/new", "w")
    assert sorted(os.listdir(os.environ["D"])) == ["a.txt", "deep"]
    assert not allowed(open, os.environ["D"] + "/deep/new", "w") and not allowed(os.remove, os.environ["D"] + "/a.txt")
    assert not allowed(os.remove, a) and not allowed(os.chmod, a, 0o777) and not allowed(os.rename, a, folder + "/b")
    return len(output)
"""


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Two of the same name, one of them in pieces, an empty one of an odd name, and a folder."""
    contents = {"x/data.bin": os.urandom(PIECE + 1), "y/data.bin": b"\x00\xff\r\n", "z/ \u00e9;$(id).txt": b""}
    for path, content in contents.items():
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_bytes(content)
    (tmp_path / "d/deep").mkdir(parents=True)
    (tmp_path / "d/a.txt").write_text("a")
    (tmp_path / "d/deep/\u00e9 b.bin").write_bytes(os.urandom(PIECE + 1))
    return {name: str(tmp_path / path) for name, path in zip("ABCD", [*contents, "d"], strict=True)}


def script(files: dict[str, str]) -> str:
    every = [member for name, path in files.items() for member in members(name, path)]
    digests = {name: hashlib.sha256(Path(path).read_bytes()).hexdigest() for name, path in every}
    return f"EXPECTED = {digests}\n{SCRIPT}"


@pytest.fixture
def room(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trying]:
    yield from at(request.param, request.getfixturevalue(f"{request.param}_server"), tmp_path, monkeypatch)


@pytest.mark.parametrize("room", ["vercel", "daytona"], indirect=True)
def test_scripts_read_them_and_change_nothing(room: Trying, files: dict[str, str]) -> None:
    assert room.recovered(source=script(files), files=files).created == 1


@pytest.mark.parametrize("room", ["modal"], indirect=True)
def test_a_machine_in_place_of_a_lost_one_has_them_too(room: Trying, files: dict[str, str]) -> None:
    room.server.fault("start", "die-frame:1", nth=3)  # the greeting, and two pieces
    assert room.recovered(source=script(files), files=files).created == 2


@pytest.mark.parametrize("room", ["e2b"], indirect=True)
def test_what_arrives_spoilt_is_sent_anew_to_another_machine(
    room: Trying, files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    execute = E2BProvider.execute
    spoilt: list[Command] = []

    async def spoils(self: E2BProvider, machine: Machine, command: Command, on_output: OnOutput) -> CommandResult:
        if command.argv[1] == "-I" and not spoilt:
            spoilt.append(command)
            command = Command(
                command.argv, command.input[:-1] + bytes([command.input[-1] ^ 1]), command.env, command.timeout
            )
        return await execute(self, machine, command, on_output)

    monkeypatch.setattr(E2BProvider, "execute", spoils)
    assert room.recovered(source=script(files), files=files).created == 2
    assert spoilt


READS = """
import os
def changed(do):
    try:
        do()
    except OSError:
        return []
    return ["changed"]
def evaluate(x):
    a = os.environ["A"]
    tried = [lambda: open(a, "a"), lambda: os.rename(a, a + "b"), lambda: os.remove(a)] if x == "change" else []
    b = os.environ["B"]
    tried += [lambda: open(b + "/deep/new", "w"), lambda: os.remove(b + "/deep/b")] if tried else []
    below = [open(b + "/deep/b").read(), *os.listdir(b)]
    return [os.path.basename(a), open(a).read(), *below, *(change for do in tried for change in changed(do))]
"""


@EACH_WAY
def test_every_kind_of_machine_shows_them(way: Way) -> None:
    """The folder lies where a script has one of its own; where that makes a difference, a script's user cannot go."""
    with tempfile.TemporaryDirectory(dir="/tmp") as above:
        if way.name in ("user", "nothing"):
            os.chmod(above, 0o755)
        place = Path(above, "files", "A")
        place.parent.mkdir()
        place.write_text("content")
        folder = place.with_name("B")
        (folder / "deep").mkdir(parents=True)
        (folder / "deep" / "b").write_text("below")
        files = {"A": str(place), "B": str(folder)}
        found = ask(READS, rows("read", "again"), "call", way, files=files)
        assert found.values == [["A", "content", "below", "deep"]] * 2, found.executions
        assert found.listener.greeting
        if {"mounts", "landlock", "uid"} & set(found.listener.greeting.protects):
            found = ask(READS, rows("change", "read"), "call", way, files=files)
            assert found.values == [["A", "content", "below", "deep"]] * 2, found.executions


def endless(folder: Path) -> Path:
    (folder / "link").symlink_to("/dev/zero")
    return folder / "link"


def waiting(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def huge(folder: Path) -> Path:
    (folder / "huge").touch()
    os.truncate(folder / "huge", 1 << 40)
    return folder / "huge"


REFUSED: dict[str, tuple[Callable[[Path], Path], str]] = {
    "missing": (lambda folder: folder / "none", r"No such file or directory\); check the path"),
    "an empty folder": (lambda folder: folder, r"cannot be read \(no file is in it\)"),
    "a folder with a link": (lambda folder: endless(folder).parent, r"cannot be read \('link' in it is a link"),
    "endless": (endless, "is not a regular file"),
    "a pipe": (waiting, "is not a regular file"),
    "no path": (lambda folder: folder / "a\0b", r"a\\x00b' cannot be read"),
    "huge": (huge, r"is too large: all files together may take 64 MB .* choose the process sandbox"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_sent_is_refused_before_anything_is_asked(name: str, tmp_path: Path) -> None:
    make, says = REFUSED[name]
    with pytest.raises(UnsupportedConfigError, match=rf"^the file B=.*{says}"):
        asyncio.run(E2BSandbox(SandboxConfig(backend="e2b", files={"B": str(make(tmp_path))})).open())


def test_they_are_counted_together(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).touch()
        os.truncate(tmp_path / name, MOST // 2 + 1)
    with pytest.raises(UnsupportedConfigError, match=r"^the file B=.* is too large"):
        Files.read({"A": str(tmp_path / "a"), "B": str(tmp_path / "b")})


class Liar(Shelf):
    """A machine that says what it likes, and keeps nothing."""

    def __init__(self, says: Callable[[dict[str, Any]], bytes], code: int | None = 0) -> None:
        super().__init__()
        self.says, self.code = says, code

    async def execute(self, machine: Machine, command: Command, on_output: OnOutput) -> CommandResult:
        on_output(self.says(json.loads(command.input.partition(b"\n")[0])))
        return CommandResult(self.code, "secret content")


SEAL = hashlib.sha256(f"A 3 {hashlib.sha256(b'abc').hexdigest()}\n".encode()).hexdigest()


def sealed(place: str) -> Callable[[dict[str, Any]], bytes]:
    return lambda asked: json.dumps({"folder": place + asked["folder"], "seal": SEAL}).encode()


LIES: dict[str, tuple[Liar, type[Exception], str]] = {
    "nothing": (Liar(lambda asked: b""), UnreachableError, "was lost"),
    "no object": (Liar(lambda asked: b"[]"), UnreachableError, "was lost"),
    "deep": (Liar(lambda asked: b"[" * 9000), UnreachableError, "was lost"),
    "a failure": (Liar(sealed("/opt/"), code=1), UnreachableError, "was lost"),
    "no seal": (Liar(lambda asked: b"{}"), UnreachableError, "were changed on their way"),
    "no place": (Liar(sealed("opt/")), UnreachableError, "were changed on their way"),
    "a way out": (Liar(sealed("/opt/../")), UnreachableError, "were changed on their way"),
    "flood": (Liar(lambda asked: b"x" * (1 << 20)), UnreachableError, "too long"),
    "too slow": (
        Liar(lambda asked: b"", code=None),
        SandboxUnavailableError,
        "too long; .* SandboxConfig\\(install_timeout=…\\)",
    ),
    "no room": (
        Liar(lambda asked: b'{"failed": "No space left \\u001b[31m\\ud800"}'),
        SandboxUnavailableError,
        r"cannot store the files \(No space left \\x1b\[31m\\ud800\); send less",
    ),
}


async def sent(provider: Shelf, files: Files) -> None:
    deadline = asyncio.get_running_loop().time() + 5
    await files.send(provider, Machine("m", "m"), Pauses(first=0.01, total=0.1), print, deadline)


@pytest.mark.parametrize("name", LIES)
def test_a_machine_that_lies_is_not_believed(name: str) -> None:
    provider, kind, says = LIES[name]
    files = Files({"A": b"abc"})
    with pytest.raises(kind, match=says) as told:
        asyncio.run(sent(provider, files))
    assert "secret" not in str(told.value)
    assert files.places == {}


def test_a_machine_that_has_them_is_believed() -> None:
    files = Files({"A": b"abc"})
    asyncio.run(sent(Liar(sealed("/opt/evalcell/")), files))
    (place,) = files.places.values()
    assert place.startswith("/opt/evalcell/files-")
    assert place.endswith("/A")
    with pytest.raises(UnreachableError, match="another folder"):
        asyncio.run(sent(Liar(sealed("/home/")), files))
