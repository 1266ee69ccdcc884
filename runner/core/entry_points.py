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
_ENTRY = {"entry": "`FILE.py:NAME` names it"}
_CALLS: dict[str, str] = {
    "inline": "an `Evaluator`, or a function, is given as `evaluator`",
    "preset": "`limits` and `sandbox` say the same",
    "with_requirements": "`read_requirements` gives `SandboxConfig` the packages of a file",
}
"""Of Python."""
_SENT: dict[str, str] = {
    "lang": "an evaluator that is kept has its language",
    "dialect": "it is said when the evaluator is kept",
    "entry": "it is said when the evaluator is kept",
    "dialect_failures": "it is said when the evaluator is kept",
    "inline": "code is kept as an evaluator first",
    "on": "who starts the server decides where scripts run",
    "encoding": "it is said when the dataset is sent, which is kept as UTF-8",
    "rows": "it is said when the dataset is sent, which is kept as rows",
    "preset": "`limits` say the same, and a preset of the server is named as `sandbox`",
    "with_requirements": "`sandbox.packages` lists them",
    "file": "a request reads no files of the server",
    "env_file": "a request reads no files of the server",
    "worst": "the rows of a run are asked for in any order",
    "show": "the rows of a run are asked for in any order",
}
"""Of a run on a server."""
_KEPT: dict[Kind, str] = {"output": "the server keeps all results, which are downloaded in any format"}
_FLAT = "it names a sandbox, or a preset of the server, which has packages and the like"
_QUICK = "a dry run has few words; `run` takes it"
_FEW: dict[Kind, str] = {
    "csv": "the rows are JSON, or those of a dataset as it is kept",
    "rows": "a few rows are scored as they are; `first` and `count` choose them",
    "results": "the reply has all of its rows",
    "gates": _NO_RUN,
    "output": _NO_RUN,
}
"""Of a dry run on a server."""
_TRIED: dict[str, str] = {
    "repeat": "a few rows are scored once",
    "cache": "what is tried is run",
    **dict.fromkeys(("lang", "dialect", "entry", "dialect_failures"), ""),
}

ENTRY_POINTS: dict[str, EntryPoint] = {
    "evalcell run": EntryPoint(settings=_ENTRY),
    "evalcell check": EntryPoint(
        {
            "place": "",
            "scores": "it tries three rows once",
            "results": "it shows the rows it tries",
            "gates": _NO_RUN,
            "output": _NO_RUN,
        },
        {
            **_ENTRY,
            "on": "it tries three rows on this machine",
            "jobs": "three rows need one worker",
            "limit": "it tries three rows",
        },
    ),
    "evalcell test": EntryPoint(
        {
            "file": "examples are JSON Lines",
            "csv": "examples are JSON Lines",
            "rows": "examples are JSON Lines with names of their own, and all are tried",
            "scores": "an example has one result",
            "results": "it shows the examples that fail",
            "gates": "each example says what is expected",
            "output": "nothing is kept",
        },
        {**_ENTRY, "on": "it tries examples on this machine"},
    ),
    "evalcell parity": EntryPoint(
        {"results": "it shows rows that differ", "gates": "rows agree or differ", "output": "nothing is kept"},
        {
            **_ENTRY,
            "sandbox": "it takes several: `--sandbox` twice",
            "inline": "it compares scripts, in files",
            "on": "sandboxes on this machine are compared",
            "repeat": "`--twice` shows which rows do not repeat",
            "cache": "what is compared is run",
        },
    ),
    "evalcell compare": EntryPoint(
        {"output": "a report of the comparison is all that is written"},
        {
            **_ENTRY,
            "report": "",
            "on": "both datasets are scored on this machine",
            "repeat": "rows are compared one by one",
            "cache": "both datasets are scored alike",
            "worst": "it shows the rows that got worse",
            "show": "it shows the rows that got worse",
            "keep": "`--by` names the columns that it needs",
            "require": "its gate is `--fail-if-worse`",
            "fail_if": "its gate is `--fail-if-worse`",
            "aggregate_timeout": "rows are compared, not figures over all of them",
            "baseline": "the base is its first dataset",
        },
    ),
    "evalcell lines": EntryPoint(
        {
            "file": "rows are JSON, one a line",
            "csv": "rows are JSON, one a line",
            "rows": "each line is a row with its `id`",
            "scores": "a row is scored once, as it comes",
            "results": "each result is printed",
            "gates": _NO_RUN,
            "output": _NO_RUN,
        },
        {
            **_ENTRY,
            "inline": "another tool names a file; save it as a script",
            "lock": "it cannot be carried along; name exact versions in the script's header",
            "on": "rows are scored where they are",
        },
    ),
    "evalcell.toml": EntryPoint(
        settings={
            **_ENTRY,
            "inline": "code stands in a script beside the file",
            "save": "whoever runs it decides: `evalcell run --save`",
            "resume": "whoever runs it decides: `evalcell run --resume`",
        }
    ),
    "evaluate": EntryPoint(settings=_CALLS),
    "stream": EntryPoint(
        {"gates": "results are yielded, not judged", "output": "results are yielded"},
        {**_CALLS, "worst": "results are yielded", "show": "results are yielded"},
    ),
    "check_examples": EntryPoint(
        {
            "file": "examples are JSON Lines",
            "csv": "examples are JSON Lines",
            "rows": "all examples are tried",
            "results": "its report has all examples",
            "gates": "each example says what is expected",
            "output": "nothing is kept",
        },
        {
            **_CALLS,
            "on": "it tries examples on this machine",
            "repeat": "an example has one result",
            "cache": "what is tried is run",
        },
    ),
    "parity": EntryPoint(
        {"results": "its report has them", "gates": "rows agree or differ", "output": "nothing is kept"},
        {
            **_CALLS,
            "on": "sandboxes on this machine are compared",
            "repeat": "`twice` shows which rows do not repeat",
            "cache": "what is compared is run",
        },
    ),
    "compare_datasets": EntryPoint(
        {"results": "the comparison has the rows that got worse", "gates": "the verdict tells", "output": _NO_RUN},
        {
            **_CALLS,
            "on": "both datasets are scored on this machine",
            "repeat": "rows are compared one by one",
            "cache": "both datasets are scored alike",
        },
    ),
    "RowScorer": EntryPoint(
        {"file": _COLUMNS, "csv": _COLUMNS, "gates": "rows are scored, not judged", "output": "results are returned"},
        {
            **_CALLS,
            "limit": "each row that comes is scored",
            "repeat": "a row has one result",
            "cache": "each row that comes is scored",
            "worst": "results are returned",
            "show": "results are returned",
        },
    ),
    "POST /v1/evaluate": EntryPoint(_FEW, {**_SENT, **_TRIED}),
    "try of MCP": EntryPoint(
        {**_FEW, "packages": _FLAT},
        {
            **_SENT,
            **_TRIED,
            **dict.fromkeys(("memory", "cpus", "seed"), _QUICK),
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
    "run of MCP": EntryPoint({**_KEPT, "packages": _FLAT}, _SENT),
    "the page": EntryPoint({**_KEPT, "packages": _FLAT}, _SENT),
}
"""Each entry point has every setting for which it gives no reason here. `tests/core/test_settings.py` holds that."""


def reason(door: str, name: str) -> str:
    """Why an entry point lacks a setting; empty if it has it."""
    lacks = ENTRY_POINTS[door]
    return lacks.settings.get(name, lacks.kinds.get(SETTINGS[name].kind, ""))


def offered(door: str) -> list[str]:
    """The settings that an entry point has, in their order."""
    return [name for name in SETTINGS if not reason(door, name)]
