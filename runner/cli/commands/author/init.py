"""`evalcell init`: a folder with an evaluator, examples, rows, `evalcell.toml`, and a workflow that runs it."""

from __future__ import annotations

import json
import os
import re
import shlex
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from rich.text import Text

import templates
from runner.cli.commands.author.new import write_new
from runner.cli.exit_codes import DONE
from runner.cli.views import render
from runner.core.errors import InputError
from runner.core.text import printable, whole
from runner.core.version import installed_version
from sandboxes.base import Language

_SCRIPTS: dict[Language, str] = {"python": "evaluator.py", "typescript": "evaluator.ts"}
_EXTRAS: dict[Language, str] = {"python": "", "typescript": "[deno]"}
_WORKFLOWS = Path(".github", "workflows")


def init(folder: str, language: Language | None) -> int:
    """
    Write the files, where none of them is yet; return the exit code.

    Inside a git repository the workflow goes to its top folder, as no other place is looked at.

    Raises:
        InputError: For a folder that cannot be used.
        OutputError: For a file that exists or cannot be written.
    """
    place, language = Path(folder), language or "python"
    top = _repository(place)
    source, examples = templates.starter(language)
    script = _SCRIPTS[language]
    name = _workflow_name(place)
    workflow = (top or place) / _WORKFLOWS / f"{name}.yml"
    requirement, local = _requirement(language)
    write_new(
        {
            place / script: source,
            place / "evaluator.cases.jsonl": examples,
            place / "rows.csv": templates.starter_file("rows.csv"),
            place / "evalcell.toml": templates.starter_file("evalcell.toml").replace("{script}", script),
            workflow: _workflow(name, _inside(place, top), requirement, language),
        },
        "folder",
        folders=True,
    )
    out = render.out()
    shown = [_shown(place / file) for file in (script, "evaluator.cases.jsonl", "rows.csv", "evalcell.toml")]
    out.print(Text(f"wrote {', '.join(shown)} and {_shown(workflow)}; next:"), soft_wrap=True)
    path, config = (shlex.quote(str(place / file)) for file in (script, "evalcell.toml"))
    out.print(Text(f"  evalcell test {path}"), soft_wrap=True)
    out.print(Text(f"  evalcell run --config {config}"), soft_wrap=True)
    if local:
        wheels = shlex.quote(str((top or place) / "wheels"))
        out.print(
            Text(f"The workflow installs {_wheel()}, which is not there yet. Write it, and commit it:"), soft_wrap=True
        )
        out.print(Text(f"pip wheel --no-deps --wheel-dir {wheels} FOLDER_OF_EVALCELL"), soft_wrap=True)
    if top is None:
        out.print(Text("The workflow runs once this folder is the top of a git repository."))
    return DONE


def _repository(place: Path) -> Path | None:
    """The top folder of the git repository that the folder is in, relative where the folder is."""
    here = place if place.is_dir() else place.parent
    if not here.is_dir():
        raise InputError(f"there is no folder {_shown(here)}; make it first: mkdir -p {shlex.quote(str(here))}")
    resolved = here.resolve()
    for above in (resolved, *resolved.parents):
        if (above / ".git").exists():
            return Path(os.path.relpath(above)) if not place.is_absolute() else above
    return None


def _inside(place: Path, top: Path | None) -> str:
    return "." if top is None else Path(os.path.relpath(place, top)).as_posix()


def _workflow_name(place: Path) -> str:
    name = re.sub(r"[^A-Za-z0-9]+", "-", place.resolve().name).strip("-").lower()
    return f"evalcell-{name}"[:100].rstrip("-")


def _requirement(language: Language) -> tuple[str, bool]:
    """What the workflow gives to pip, and whether that is a wheel in the repository, since no address is known."""
    name = f"evalcell{_EXTRAS[language]}"
    with suppress(PackageNotFoundError):  # PEP 610; a checkout need not be installed
        origin = json.loads(distribution("evalcell").read_text("direct_url.json") or "{}")
        if origin.get("url", "").startswith("https:"):
            commit = origin.get("vcs_info")
            address = f"{commit['vcs']}+{origin['url']}@{commit['commit_id']}" if commit else origin["url"]
            return f"{name} @ {address}", False
    return f"{name} @ file://${{{{ github.workspace }}}}/{_wheel()}", True


def _wheel() -> str:
    return f"wheels/evalcell-{installed_version() or '0.1.0'}-py3-none-any.whl"


def _workflow(name: str, inside: str, requirement: str, language: Language) -> str:
    if "${{" in inside:
        raise InputError(
            f"{printable(whole(inside))}: GitHub takes ${{{{ … }}}} for an expression; name the folder without"
        )
    results = "results.jsonl" if inside == "." else f"{inside}/results.jsonl"
    words = {
        "name": name,
        "folder": json.dumps(inside, ensure_ascii=False),  # which YAML reads too
        "package": json.dumps(requirement),
        "script": _SCRIPTS[language],
        "results": json.dumps(results, ensure_ascii=False),
    }
    return re.sub(r"\{(\w+)\}", lambda found: words[found[1]], templates.starter_file("workflow.yml"))


def _shown(path: Path) -> str:
    return printable(whole(str(path)))
