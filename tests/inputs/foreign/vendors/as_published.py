"""
Scripts as they are published, unchanged: each is taken from its source when this runs, as none of it is kept here.

`make test-published` runs this. What a script must say of its rows stands in published/, and so does where it is:
in a vendor's installed package, or in a repository of which `EVALCELL_VENDOR_CLONES` has a clone.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import textwrap
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from runner.core.errors import EvaluatorError
from runner.inputs.evaluators.foreign.types import DATA, INLINE
from runner.inputs.evaluators.load import SCRIPTS, parse_evaluator
from sandboxes.base import SandboxConfig
from tests.inputs.foreign.vendors.comparison import Row, Words, differences, results
from tests.inputs.foreign.vendors.environment import HERE, UnavailableError, clone, node, packages, python, say

FOLDER = HERE / "published"
_NODE = ("promptfoo", "langfuse-page")
_NATIVE = "phoenix-page"
"""Scripts in the shape of our own."""


@dataclass(frozen=True)
class Published:
    """One script, and what it must say."""

    dialect: str
    """The name of its file in published/."""
    at: str
    """`package:PATH` in the vendor's installed packages, or `OWNER/NAME@COMMIT:PATH`."""
    entry: str
    says: list[str]
    """For each row: its outcome, or its labels and scores, as `short` writes them."""
    rows: list[Row]
    sha256: str = ""
    cell: int | None = None
    """Of a notebook."""
    lines: str = ""
    """`12-20`, of the file or the cell, without the indent that they share; `1-4, 9-20` are two parts."""
    between: list[str] = field(default_factory=list)
    """What stands before and behind the script in these lines, as in a string of another language."""
    suffix: str = ""
    """Of the script, where it is not that of its file."""
    given: dict[str, Any] = field(default_factory=dict)
    mapped: dict[str, str] = field(default_factory=dict)
    """Where arguments come from that no row has by their names, as with `--map`."""
    packages: list[str] = field(default_factory=list)
    """What its tool has installed beside a script, as with `--with`."""
    needs: str = ""
    """`entry` or `dialect` where these must be said, as the script could be several."""
    refused: str = ""
    """What evalcell says of it instead of running it."""
    alone: str = ""
    """Why the vendor's own runner is not asked."""

    def __str__(self) -> str:
        path = self.at.rpartition("/")[2] or self.at
        return f"{self.dialect}-{path}-{self.lines or self.cell or 'whole'}-{self.entry}".replace(" ", "")

    @property
    def vendor(self) -> str:
        """Whose list of packages it is compared with."""
        return "promptfoo" if self.dialect == "langfuse-page" else self.dialect

    @property
    def name(self) -> str | None:
        """The dialect's name in evalcell."""
        return None if self.dialect == _NATIVE else self.dialect.removesuffix("-page")

    @property
    def kind(self) -> str:
        return self.suffix or Path(self.at).suffix


def manifest() -> list[Published]:
    found = []
    for file in sorted(FOLDER.glob("*.toml")):
        said = tomllib.loads(file.read_text("utf-8"))
        for one in said["script"]:
            rows = one.pop("rows", "rows")
            found.append(
                Published(dialect=file.stem, rows=[complete(row, n) for n, row in enumerate(said[rows])], **one)
            )
    return found


def complete(row: Row, number: int) -> Row:
    return {"id": str(number), "input": None, "output": None, "reference": None, "metadata": {}, **row}


def text(one: Published) -> str:
    """The script. Fails where its text is another one."""
    source, _, path = one.at.partition(":")
    if source == "package":
        whole = (packages(one.vendor) / path).read_text("utf-8")
    else:
        repository, _, commit = source.partition("@")
        whole = in_clone(repository, commit, path)
    if one.cell is not None:
        whole = "".join(json.loads(whole)["cells"][one.cell]["source"])
    found = part(whole, one)
    assert hashlib.sha256(found.encode()).hexdigest() == one.sha256, f"{one.at} has another text:\n{found[:2000]}"
    return found


def part(whole: str, one: Published) -> str:
    if one.lines:
        kept, lines = [], whole.splitlines(keepends=True)
        for span in one.lines.split(","):
            first, _, last = span.strip().partition("-")
            kept += lines[int(first) - 1 : int(last or first)]
        whole = textwrap.dedent("".join(kept))
    if one.between:
        before, behind = one.between
        _, found, whole = whole.partition(before)
        assert found, f"{one.at}: there is no {before!r}"
        whole = whole.partition(behind)[0] if behind else whole
    return whole


def in_clone(repository: str, commit: str, path: str) -> str:
    command = ["git", "-C", str(clone(repository)), "-c", "safe.directory=*", "show", f"{commit}:{path}"]
    done = subprocess.run(command, capture_output=True)
    if done.returncode:
        raise UnavailableError(f"the clone of {repository} has no such commit")
    return done.stdout.decode("utf-8")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("one", manifest(), ids=str)
def test_a_published_script_runs_unchanged(one: Published, tmp_path: Path) -> None:
    source = text(one)
    script = tmp_path / f"published{one.kind}"
    script.write_text(source, "utf-8")
    if one.refused:
        with pytest.raises(EvaluatorError) as refused:
            read(one, source)
        assert one.refused in str(refused.value)
        return
    sandbox = SandboxConfig(backend="process", packages=tuple(one.packages)) if one.packages else None
    found = results(read(one, source), one.rows, one.given, one.mapped, sandbox=sandbox)
    assert [short(row) for row in found] == one.says, [row.get("why") for row in found]
    if one.alone:
        return
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in one.rows), "utf-8")
    command = oracle(one)
    theirs = say(command, script, one.entry, file, one.given)
    assert differences(theirs, without_components(found), one.rows) == []


def read(one: Published, source: str) -> Any:
    """The evaluator: it is seen to be of the dialect, where nothing else has to be said."""
    inline = one.entry in (INLINE, DATA)
    dialect = one.name if inline or one.needs == "dialect" else None
    entry = one.entry if inline or one.needs in ("entry", "dialect") else None
    found = parse_evaluator(source, "published", language=SCRIPTS.get(one.kind, "python"), dialect=dialect, entry=entry)
    assert (found.dialect, found.entry) == (one.name, one.entry if one.name else None)
    return found


def oracle(one: Published) -> list[Path]:
    oracles = HERE / "oracles"
    if one.dialect in _NODE:
        folder = node(one.vendor)
        more = [clone("langfuse/langfuse")] if one.dialect == "langfuse-page" else []
        name = one.dialect.replace("-", "_")
        return [folder / "bin" / "node", oracles / f"{name}_oracle.mjs", folder, *more]
    name = {"inspect": "inspect_ai"}.get(one.dialect, one.dialect.replace("-", "_"))
    return [python(one.vendor), oracles / f"{name}_oracle.py"]


def without_components(found: list[Words]) -> list[Words]:
    """The rows without what promptfoo's component results add to an explanation: promptfoo keeps them apart."""

    def own(explanation: str | None) -> str | None:
        return explanation and re.sub(r"(\n(pass|fail) [\d.]+: .*)+$", "", explanation)

    return [
        {**row, "outputs": {name: [label, score, own(why)] for name, (label, score, why) in row["outputs"].items()}}
        for row in found
    ]


def short(row: Words) -> str:
    """`pass 1`, `0.5`, `a=1 b=yes`, or an outcome."""
    if row["outcome"] != "scored":
        return str(row["outcome"])
    said = []
    for name, (label, score, _) in row["outputs"].items():
        words = " ".join([*([label] if label is not None else []), *([f"{score:.6g}"] if score is not None else [])])
        said.append(f"{name}={words}" if name else words)
    return ", ".join(said)
