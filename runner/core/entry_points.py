"""Which settings each entry point lacks, and why; it has all others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from runner.core.settings import SETTINGS, Kind


class EntryPoint(NamedTuple):
    """An entry point: of kinds of settings, and of single ones, the reason why it lacks them. Empty: it has it."""

    kinds: Mapping[Kind, str] = {}
    settings: Mapping[str, str] = {}


_NO_RUN = "no results are kept or judged"
_COLUMNS = "its rows are Python values"
_ALIKE = {
    "on": "both datasets are scored on this machine",
    "repeat": "rows are compared one by one",
    "cache": "both datasets are scored alike",
}
_EXAMPLES: dict[Kind, str] = {
    **dict.fromkeys(("file", "csv"), "examples are JSON Lines"),
    "rows": "all examples are tried",
    "results": "its report has all examples",
    "gates": "each example says what is expected",
    "output": "nothing is kept",
}
_PARITY: dict[Kind, str] = {
    "judges": "a judge's answers differ from time to time, whatever the sandbox",
    "results": "its report has them",
    "gates": "rows agree or differ",
    "output": "nothing is kept",
}
_JUDGES_KEPT = "its sandbox is kept from row to row, and what judges may be asked is for one run"
_JUDGES_SENT = "who starts the server grants judges, and a budget for all: `evalcell serve --judge`"
_SIDES = {"on": "sandboxes on this machine are compared", "cache": "what is compared is run"}
_AUDITED: dict[str, str] = {
    "on": "it scores planted rows on this machine",
    **dict.fromkeys(("repeat", "cache"), "it scores each planted row once"),
    **dict.fromkeys(("output", "decimal_comma", "save", "resume", "overwrite"), "planted rows are not kept"),
    **dict.fromkeys(("fail_if", "max_failed", "max_abstained", "aggregate_timeout"), "`require` is of what it finds"),
    "stop_when_sure": "it finds what all planted rows say",
    **dict.fromkeys(("baseline", "fail_if_worse", "allow_inconclusive"), "it compares no runs"),
}
_CALLS: dict[str, str] = {
    "inline": "an `Evaluator`, or a function, is given as `evaluator`",
    "preset": "`limits` and `sandbox` say the same",
    "with_requirements": "`read_requirements` gives `SandboxConfig` the packages of a file",
}
"""Of Python."""
_SENT: dict[str, str] = {
    "lang": "an evaluator that is kept has its language",
    **dict.fromkeys(("dialect", "entry", "dialect_failures"), "it is said when the evaluator is kept"),
    "inline": "code is kept as an evaluator first",
    "on": "who starts the server decides where scripts run",
    "encoding": "it is said when the dataset is sent, which is kept as UTF-8",
    "rows": "it is said when the dataset is sent, which is kept as rows",
    "preset": "`limits` say the same, and a preset of the server is named as `sandbox`",
    "with_requirements": "`sandbox.packages` lists them",
    **dict.fromkeys(("file", "env_file"), "a request reads no files of the server"),
    **dict.fromkeys(("engine", "image", "runtime"), "who starts the server decides which containers there are"),
    **dict.fromkeys(("worst", "show"), "the rows of a run are asked for in any order"),
}
"""Of a run on a server."""
_KEPT: dict[Kind, str] = {
    "judges": _JUDGES_SENT,
    "output": "the server keeps all results, which are downloaded in any format",
}
_FLAT: dict[Kind, str] = {
    **_KEPT,
    "packages": "it names a sandbox, or a preset of the server, which has packages and the like",
}
_FEW: dict[Kind, str] = {
    "judges": _JUDGES_SENT,
    "csv": "the rows are JSON, or those of a dataset as it is kept",
    "rows": "a few rows are scored as they are; `first` and `count` choose them",
    "results": "the reply has all of its rows",
    **dict.fromkeys(("gates", "output"), _NO_RUN),
}
"""Of a dry run on a server."""
_TRIED: dict[str, str] = {
    **_SENT,
    "repeat": "a few rows are scored once",
    "cache": "what is tried is run",
    **dict.fromkeys(("lang", "dialect", "entry", "dialect_failures"), ""),
}

_COMMANDS: dict[str, EntryPoint] = {
    "evalcell run": EntryPoint(),
    "evalcell check": EntryPoint(
        {
            "place": "",
            "scores": "it tries three rows once",
            "results": "it shows the rows it tries",
            **dict.fromkeys(("gates", "output"), _NO_RUN),
        },
        {
            "on": "it tries three rows on this machine",
            "jobs": "three rows need one worker",
            "limit": "it tries three rows",
        },
    ),
    "evalcell audit": EntryPoint({"place": "", "results": "it shows what it finds"}, _AUDITED),
    "evalcell test": EntryPoint(
        {
            **_EXAMPLES,
            "rows": "examples are JSON Lines with names of their own, and all are tried",
            "scores": "an example has one result",
            "results": "it shows the examples that fail",
        },
        {"on": "it tries examples on this machine"},
    ),
    "evalcell parity": EntryPoint(
        {**_PARITY, "results": "it shows rows that differ"},
        {
            **_SIDES,
            "sandbox": "it takes several: `--sandbox` twice",
            "inline": "it compares scripts, in files",
            "repeat": "`--twice` shows which rows do not repeat",
        },
    ),
    "evalcell compare": EntryPoint(
        {"judges": "`evalcell run` has them; compare the two runs", "output": "a report is all that is written"},
        {
            **_ALIKE,
            "report": "",
            **dict.fromkeys(("worst", "show"), "it shows the rows that got worse"),
            "keep": "`--by` names the columns that it needs",
            **dict.fromkeys(("require", "fail_if"), "its gate is `--fail-if-worse`"),
            "aggregate_timeout": "rows are compared, not figures over all of them",
            "baseline": "the base is its first dataset",
        },
    ),
    "evalcell suggest": EntryPoint(
        {
            **dict.fromkeys(
                ("script", "mapping", "limits", "packages", "judges", "place", "scores"), "it runs no script"
            ),
            "results": "it shows a command",
            **dict.fromkeys(("gates", "output"), _NO_RUN),
        },
        {"limit": "it looks at 200 rows", "id": "it needs no ids"},
    ),
    "evalcell lines": EntryPoint(
        {
            **dict.fromkeys(("file", "csv"), "rows are JSON, one a line"),
            "rows": "each line is a row with its `id`",
            "judges": _JUDGES_KEPT,
            "scores": "a row is scored once, as it comes",
            "results": "each result is printed",
            **dict.fromkeys(("gates", "output"), _NO_RUN),
        },
        {
            "inline": "another tool names a file; save it as a script",
            "lock": "it cannot be carried along; name exact versions in the script's header",
            "on": "rows are scored where they are",
        },
    ),
    "evalcell.toml": EntryPoint(
        settings={
            "inline": "code stands in a script beside the file",
            "save": "whoever runs it decides: `evalcell run --save`",
            "resume": "whoever runs it decides: `evalcell run --resume`",
        }
    ),
}
_PYTHON: dict[str, EntryPoint] = {
    "evaluate": EntryPoint(),
    "stream": EntryPoint(
        {"output": "results are yielded"},
        {
            **dict.fromkeys(("worst", "show", "by"), "results are yielded"),
            "aggregate_timeout": "a script's `aggregate` is not run",
            "allow_inconclusive": "a gate without enough evidence does not stop it",
        },
    ),
    "check_examples": EntryPoint(
        _EXAMPLES,
        {
            "on": "it tries examples on this machine",
            "repeat": "an example has one result",
            "cache": "what is tried is run",
        },
    ),
    "parity": EntryPoint(_PARITY, {**_SIDES, "repeat": "`twice` shows which rows do not repeat"}),
    "audit": EntryPoint({"results": "it returns what it finds"}, _AUDITED),
    "compare_datasets": EntryPoint(
        {
            "judges": "`evaluate` has them; compare the two runs",
            "results": "the comparison has the rows that got worse",
            "gates": "the verdict tells",
            "output": _NO_RUN,
        },
        {**_ALIKE, "by": ""},
    ),
    "RowScorer": EntryPoint(
        {
            **dict.fromkeys(("file", "csv"), _COLUMNS),
            "judges": _JUDGES_KEPT,
            "gates": "rows are scored, not judged",
            "output": "results are returned",
        },
        {
            **dict.fromkeys(("limit", "cache"), "each row that comes is scored"),
            "repeat": "a row has one result",
            **dict.fromkeys(("worst", "show", "by"), "results are returned"),
        },
    ),
}
ENTRY_POINTS: dict[str, EntryPoint] = {
    **{name: EntryPoint(k, {"entry": "`FILE.py:NAME` names it", **s}) for name, (k, s) in _COMMANDS.items()},
    **{name: EntryPoint(k, {**_CALLS, **s}) for name, (k, s) in _PYTHON.items()},
    "POST /v1/evaluate": EntryPoint(_FEW, _TRIED),
    "try of MCP": EntryPoint(
        {**_FEW, "packages": _FLAT["packages"]},
        {
            **_TRIED,
            **dict.fromkeys(("memory", "cpus", "seed"), "a dry run has few words; `run` takes it"),
            "dialect_failures": "an exception fails the row",
        },
    ),
    "POST /v1/runs": EntryPoint(_KEPT, _SENT),
    "Client.run": EntryPoint(_KEPT, _SENT),
    "Client.evaluate": EntryPoint(
        _KEPT,
        {
            **_SENT,
            **_CALLS,
            **dict.fromkeys(("lang", "dialect", "entry", "dialect_failures"), ""),
            **dict.fromkeys(("encoding", "rows", "worst", "show"), ""),
        },
    ),
    "run of MCP": EntryPoint(_FLAT, _SENT),
    "the page": EntryPoint(_FLAT, _SENT),
}
"""Each entry point has every setting for which it gives no reason here. `tests/core/test_settings.py` holds that."""


def reason(door: str, name: str) -> str:
    """Return why an entry point lacks a setting; empty if it has it."""
    lacks = ENTRY_POINTS[door]
    return lacks.settings.get(name, lacks.kinds.get(SETTINGS[name].kind, ""))


def settings_of(door: str) -> list[str]:
    """Return the settings that an entry point has, in their order."""
    return [name for name in SETTINGS if not reason(door, name)]
