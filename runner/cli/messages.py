"""The library's messages with options in place of config fields."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable

OPTIONS = {
    "InputMapping(literals)": "--set",
    "InputMapping(paths)": "--map",
    "Limits(memory)": "--memory",
    "Limits(timeout)": "--timeout",
    "SandboxConfig(allow_weak_isolation)": "--allow-weak-isolation",
    "SandboxConfig(env)": "--env",
    "SandboxConfig(files)": "--file",
    "SandboxConfig(install_timeout)": "--install-timeout",
    "SandboxConfig(lock)": "--lock",
    "SandboxConfig(network)": "--allow-network",
    "SandboxConfig(packages)": "--with",
}
"""By the field, as messages name it: `Limits(timeout=…)` says that the next step is to give a timeout."""

FIELD = re.compile(
    r"\b(InputMapping|Limits|SandboxConfig)\((\w+)=(?:\{'([\w.]+)': (?:'([^']*)'|…)\}|\['(\w+)'\]|True|…)\)"
)


def _with(names: str) -> str:
    return " ".join(f"--with {shlex.quote(name)}" for name in json.loads(names))


def _rows(found: re.Match[str]) -> str:
    return f"{found[1]} --rows {shlex.quote(found[2] or found[3] or '')}"


_PHRASES: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"\bmap another to `(\w+)`"), r"map another with --map \1=COLUMN"),
    (re.compile(r"\bchoose the (\w+) sandbox\b"), r"choose --sandbox \1"),
    (
        re.compile(r"\badd (`dependencies = (\[(?:[^\"`]|\"(?:[^\"\\]|\\.)*\")*\])`)"),
        lambda found: f"add {_with(found[2])}, or {found[1]}",
    ),
    (
        re.compile(r"\bread a requirements file with read_requirements\(\"FILE\"\)"),
        "name a requirements file with --with-requirements FILE",
    ),
    (
        re.compile(r"\bname two sandboxes, or another script$"),
        "name two (--sandbox twice), or another script (--other), or run it --twice",
    ),
    (
        re.compile(r"^a script that is run twice is compared with itself; name one sandbox and no other script$"),
        "--twice compares a script with itself; give --sandbox once at most, and no --other",
    ),
    (re.compile(r"\bleave the language out\b"), "leave --lang out"),
    (re.compile(r"\bleave the isolation out\b"), "leave --isolation out"),
    (re.compile(r"\bsay which: dialect=\"([\w-]+)\""), r"say which: --dialect \1"),
    (re.compile(r"\bgive one: threshold="), "give one: --threshold "),
    (
        re.compile(r'\bgive direction="maximize" or "minimize"'),
        "add --direction maximize or --direction minimize",
    ),
    (re.compile(r"\bset trust_config\b"), "add --trust-config"),
    (re.compile(r"\bgive `overwrite` in place of `resume`"), "give --overwrite in place of --resume"),
    (
        re.compile(r"\bset `resume` to go on with it or `overwrite` to start anew\b"),
        "add --resume to go on with it or --overwrite to start anew",
    ),
    (re.compile(r"\bset `overwrite` to replace it\b"), "add --overwrite to replace it"),
    (
        re.compile(r"^`resume` goes on with a run in a folder; add one to the outputs, such as run/$"),
        "--resume goes on with a run in a folder; add -o run/",
    ),
    (re.compile(r"^the gate (?=['\"])"), "--fail-if "),
    (re.compile(r"^the requirement (?=['\"])"), "--require "),
    (re.compile(r"\bmax_abstained\b"), "--max-abstained"),
    (re.compile(r"\bfail_if_worse\b"), "--fail-if-worse"),
    (re.compile(r"\bbaseline=…"), "--baseline"),
    (re.compile(r"\bignore_input=True"), "--ignore-input"),
    (re.compile(r"\bkeep the column in both runs$"), "run both with --keep COLUMN"),
    (re.compile(r"^the env-file "), "--env-file "),
    (re.compile(r"^the file (?=\w+=)"), "--file "),
    (re.compile(r"^the report (?=\S)"), "--report "),
    (re.compile(r"\bsuch as encoding=\"([\w-]+)\""), r"such as --encoding \1"),
    (re.compile(r"\bmax_failed\b"), "--max-failed"),
    (re.compile(r"\bgive json_columns=\[\"([^\"]*)\"\]"), r"give --json-columns '\1'"),
    (re.compile(r"\bgive json_columns\b"), "give --json-columns"),
    (re.compile(r"\b(give|at|which) rows=(?:'([^']*)'|\"([^\"]*)\")"), _rows),
    (re.compile(r"\bor use force\b"), "or use --force"),
    (re.compile(r"\bgive this one another name\b"), "give this one another with --name"),
    (re.compile(r"\braise the timeout\b"), "raise --timeout"),
    (re.compile(r"\braise aggregate_timeout\b"), "raise --aggregate-timeout"),
    (re.compile(r"\braise the memory limit\b"), "raise --memory"),
    (re.compile(r"\braise the limit `cpu`"), "raise --cpus"),
    (re.compile(r"\blimit of processor time \(`cpu`\)"), "limit of processor time (--cpus)"),
)
"""Phrases of results' messages, which name no field, because they are the same for every entry point."""


def in_options(message: str) -> str:
    """Replace config fields in a message by options."""
    for phrase, words in _PHRASES:
        message = phrase.sub(words, message)
    return FIELD.sub(_option, message)


def _option(found: re.Match[str]) -> str:
    model, field, name, value, word = found.groups()
    option = OPTIONS[f"{model}({field})"]
    if word:
        return f"{option} {word}"
    if field == "files" and name:
        return f"{option} {shlex.quote(f'{name}={value}')}"
    return f"{option} {name}={value or '…'}" if name else option
