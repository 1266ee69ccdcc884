"""What the command line asks of a sandbox: packages, a lock, files, variables, the network."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from runner.cli.command_options import CommandOptions
from runner.core.errors import InputError
from runner.runs.flat import MAX_LOCK
from sandboxes.base import SandboxConfig
from tests.cli.commands import LENGTH, evalcell, header, run, write_rows
from tests.skips import need

LOCK = f"numpy==2.1.0 \\\n    --hash=sha256:{'0' * 64}\n"


def config_of(**settings: Any) -> SandboxConfig:
    return CommandOptions.of(settings).request("length.py", None).sandbox


def test_nothing_asked_names_no_backend() -> None:
    config = config_of()
    assert config == SandboxConfig()
    assert config.model_fields_set == set()


def test_everything_that_is_asked_is_in_the_config(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "hush")
    (here / "model.json").write_text("{}")
    (here / "link.json").symlink_to("model.json")
    (here / "numpy.lock").write_text(LOCK)
    config = config_of(
        sandbox="process",
        isolation="call",
        jobs=3,
        **{"with": ("NumPy >= 2",)},
        lock="numpy.lock",
        install_timeout=7.5,
        file=("MODEL=link.json",),
        env=("TOKEN", "TOKEN"),
        allow_network=True,
        allow_weak_isolation=True,
    )
    assert config == SandboxConfig(
        backend="process",
        isolation="call",
        jobs=3,
        packages=("numpy>=2",),
        lock=LOCK,
        install_timeout=7.5,
        files={"MODEL": str((here / "model.json").resolve())},
        env=("TOKEN",),
        network=True,
        allow_weak_isolation=True,
    )


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        ("model.json", "is not NAME=PATH; write for example --file MODEL=model.json"),
        ("MODEL=", "is not NAME=PATH"),
        ("=model.json", "is not a variable name"),
        ("MY-MODEL=model.json", "'MY-MODEL' is not a variable name"),
        ("\x1b[2J=model.json", r"\\x1b"),
        ("MÖDEL=model.json", "is not a variable name"),
        ("MODEL=modle.json", r"there is no such file \(did you mean `model.json`\?\)"),
        ("MODEL=pipe", "is not a regular file"),
        ("MODEL=/dev/null", "is not a regular file"),
        ("MODEL=dangling", "there is no such file"),
        ("MODEL=round", "cannot be read"),
        ("MODEL=model.json/x", "cannot be read"),
        ("MODEL=a\0b", "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_given_is_told(here: Path, pair: str, words: str) -> None:
    (here / "model.json").write_text("{}")
    os.mkfifo(here / "pipe")
    (here / "dangling").symlink_to("nowhere")
    (here / "round").symlink_to("round")
    with pytest.raises(InputError, match=words) as told:
        config_of(file=(pair,))
    assert str(told.value).isprintable()


def test_a_folder_is_given_with_all_in_it(here: Path) -> None:
    (here / "model/deep").mkdir(parents=True)
    (here / "model/deep/words.txt").write_text("a word")
    (here / "reads.py").write_text(
        'import os\ndef evaluate(output):\n    return open(os.environ["MODEL"] + "/deep/words.txt").read()\n'
    )
    write_rows(here / "rows.jsonl", [{"output": "x"}])
    words = ("reads.py", "rows.jsonl", "-q", "-o", "out/", "--file", "MODEL=model")
    assert run(*words).exit_code == 0
    assert '"label": "a word"' in (here / "out/results.jsonl").read_text()
    (here / "model/deep/words.txt").write_text("another word")
    changed = run(*words, "--resume")
    assert (changed.exit_code, "the file MODEL has another content" in changed.stderr) == (2, True)
    (here / "model/link").symlink_to("/etc")
    linked = run(*words, "--overwrite")
    assert (linked.exit_code, "'link' in it is a link" in linked.stderr) == (2, True)
    assert str(here / "model") in config_of(file=("MODEL=model",)).files["MODEL"]


def test_each_file_and_variable_has_a_name_of_its_own(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATA", "x")
    with pytest.raises(InputError, match="names the variable A twice"):
        config_of(file=("A=data.jsonl", "A=length.py"))
    with pytest.raises(InputError, match="--env DATA is also the name of a --file"):
        config_of(file=("DATA=data.jsonl",), env=("DATA",))
    assert config_of(file=("A=data.jsonl", "B=data.jsonl")).files.keys() == {"A", "B"}


def test_a_path_may_have_an_equals_sign(here: Path) -> None:
    (here / "a=b.json").write_text("{}")
    assert config_of(file=("A=a=b.json",)).files == {"A": str((here / "a=b.json").resolve())}


@pytest.mark.parametrize("given", ["sesame-open", "KEY=sesame-open", "KEY-sesame"])
def test_a_variables_value_is_never_printed(here: Path, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("KEY", "sesame-open" if given != "KEY-sesame" else given)
    result = run("length.py", "data.jsonl", "--env", given)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "name" in result.stderr
    assert "sesame" not in result.stderr


def test_a_variable_that_is_not_there_is_told(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_THERE", raising=False)
    for command in ("run", "check"):
        result = evalcell(command, "length.py", "data.jsonl", "--env", "NOT_THERE")
        assert result.exit_code == 2
        assert "--env NOT_THERE: there is no such variable in your environment" in result.stderr


def test_a_variable_may_stand_in_an_env_file(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file goes over the environment, and what it says is a value: nothing in it is looked up."""
    monkeypatch.setenv("TOKEN", "of-the-environment")
    (here / "my.env").write_text("export TOKEN='of-the-file'\nBOTH=${TOKEN}/x\nBARE\n")
    (here / "tell.py").write_text(
        "import os\ndef evaluate(output):\n    return len(os.environ['TOKEN']) + 100 * len(os.environ['BOTH'])\n"
    )
    words = ["--env", "TOKEN", "--env", "BOTH", "--env-file", "my.env", "--limit", "1", "-o", "run/"]
    result = run("tell.py", "data.jsonl", *words, "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["mean"] == 100 * len("${TOKEN}/x") + len("of-the-file")
    manifest = json.loads((here / "run" / "manifest.json").read_text())
    assert "--env-file my.env" in manifest["command"]
    assert "of-the-file" not in "".join(path.read_text() for path in (here / "run").iterdir())
    result = run("tell.py", "data.jsonl", "--env", "BARE", "--env-file", "my.env")
    assert result.exit_code == 2
    assert "--env BARE: there is no such variable in your environment or the --env-file" in result.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read"),
        (b"A=\xff\n", "is not text in UTF-8"),
        (b"A=" + b"x" * (1 << 20), "is larger than 1 MB"),
    ],
)
def test_an_env_file_that_is_none_is_one_line(here: Path, content: bytes | None, said: str) -> None:
    if content is not None:
        (here / "my.env").write_bytes(content)
    write_rows(here / "data.jsonl", [{"output": "x", "expected": {"score": 1}}])
    for command in ("run", "check", "test", "parity"):
        others = ["--other", "length.py"] if command == "parity" else []
        result = evalcell(command, "length.py", "data.jsonl", *others, "--env-file", "my.env")
        assert result.exit_code == 2
        (line,) = result.stderr.splitlines()
        assert line.startswith("evalcell: --env-file my.env ")
        assert said in line


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no.lock", "there is no such file (did you mean `my.lock`?)"),
        ("sub", "is a folder"),
        ("large.lock", "is larger than 4 MB"),
        ("bytes.lock", "is not UTF-8 at byte 3"),
        ("my.lock", "my.lock"),
        ("data.jsonl", "data.jsonl, line 1"),
    ],
)
def test_a_lock_that_cannot_be_used_is_named(here: Path, name: str, words: str) -> None:
    (here / "sub").mkdir()
    (here / "my.lock").write_text("numpy @ file:///etc/hostname\n")
    (here / "bytes.lock").write_bytes(b"ab\xff")
    with (here / "large.lock").open("wb") as file:
        file.truncate(MAX_LOCK + 1)
    result = run("length.py", "data.jsonl", "--lock", name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--lock " + name in result.stderr
    assert words in result.stderr


@pytest.mark.usefixtures("theirs")
@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("numpy>=2", None),
        ("Num_Py", "lacks num-py"),
        ("numpy<2", "has numpy 2.1.0, which is not numpy<2"),
        ("scikit-learn", "lacks scikit-learn"),
        ("scikit-learn; python_version<'3'", None),
    ],
)
def test_a_lock_must_hold_what_is_asked(here: Path, wanted: str, words: str | None) -> None:
    (here / "my.lock").write_text(LOCK)
    result = run("length.py", "data.jsonl", "--sandbox", "theirs", "--with", wanted, "--lock", "my.lock")
    assert result.exit_code == (0 if words is None else 2), result.stderr
    assert words is None or f"evalcell: --lock my.lock {words}" in result.stderr


@pytest.mark.usefixtures("theirs")
def test_a_lock_alone_is_fine(here: Path) -> None:
    (here / "my.lock").write_text(LOCK)
    result = run("length.py", "data.jsonl", "--sandbox", "theirs", "--lock", "my.lock", "-o", "run/")
    assert result.exit_code == 0, result.stderr
    assert (here / "run" / "requirements.lock").read_text() == LOCK


HOSTILE = [
    "numpy @ https://example.invalid/numpy.whl",
    "numpy @ file:///etc/hostname",
    "git+https://example.invalid/x",
    "-r /etc/hostname",
    "--index-url=https://example.invalid",
    "./wheels/numpy.whl",
    "/etc/hostname",
    "numpy\n-r /etc/hostname",
    "",
]


@pytest.mark.parametrize("line", HOSTILE)
@pytest.mark.parametrize("command", ["run", "check"])
def test_what_is_no_plain_requirement_is_refused_by_name(here: Path, command: str, line: str) -> None:
    result = evalcell(command, "length.py", "data.jsonl", "--with", line)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("evalcell: --with: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("sandbox", [[], ["--sandbox", "wasm"], ["--sandbox", "process"]])
def test_a_direct_reference_in_a_header_is_refused_with_the_files_name(here: Path, sandbox: list[str]) -> None:
    script = header(LENGTH, 'dependencies = ["numpy @ https://example.invalid/numpy.whl"]')
    (here / "hostile.py").write_text(script)
    for command in ("run", "check"):
        result = evalcell(command, "hostile.py", "data.jsonl", *sandbox)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "evalcell: hostile.py, `dependencies`: 'numpy@" in result.stderr.replace(" @ ", "@")


@pytest.mark.parametrize(
    ("options", "feature"),
    [
        (["--with", "numpy"], "packages (numpy)"),
        (["--lock", "my.lock"], "packages"),
        (["--file", "A=data.jsonl"], "files (A)"),
        (["--env", "PATH"], "env (PATH)"),
        (["--allow-network"], "network"),
    ],
)
def test_a_sandbox_that_was_named_and_lacks_it_is_refused_with_the_next_step(
    here: Path, options: list[str], feature: str
) -> None:
    (here / "my.lock").write_text(LOCK)
    result = run("length.py", "data.jsonl", "--sandbox", "wasm", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"the wasm sandbox has no {feature}: leave" in result.stderr
    assert "`evalcell sandboxes` lists them" in result.stderr


@pytest.mark.usefixtures("theirs")
def test_check_shows_the_packages_and_the_reason(here: Path) -> None:
    (here / "needs.py").write_text(header(LENGTH, 'dependencies = ["Scikit_Learn>=1.5"]'))
    result = evalcell("check", "needs.py", "--with", "numpy", "--sandbox", "theirs")
    assert result.exit_code == 0, result.stderr
    text = " ".join(result.stdout.split())
    assert "packages scikit-learn>=1.5, numpy" in text
    assert "sandbox as asked -> theirs" in text
    result = evalcell("check", "needs.py", "data.jsonl", "--sandbox", "theirs", "--allow-network", "--env", "PATH")
    assert result.exit_code == 0, result.stderr


@pytest.mark.usefixtures("theirs")
def test_the_files_of_a_run_are_not_overwritten(here: Path) -> None:
    (here / "model.json").write_text("{}")
    (here / "my.json").write_text(LOCK)
    for name in ("model.json", "my.json"):
        result = run(
            *("length.py", "data.jsonl", "--sandbox", "theirs", "-o", name),
            *("--file", "MODEL=model.json", "--lock", "my.json"),
        )
        assert result.exit_code == 2
        assert f"-o {name} would overwrite what the run reads" in result.stderr
    assert (here / "model.json").read_text() == "{}"


@pytest.mark.usefixtures("theirs")
def test_the_reason_for_a_sandbox_is_printed(here: Path) -> None:
    result = run("length.py", "data.jsonl", "--sandbox", "theirs")
    assert result.stderr == "sandbox: as asked -> theirs\n"


@pytest.fixture
def _process() -> None:
    """The process sandbox, where it can run."""
    need("process")


SEES = """
import os

def evaluate(output):
    with open(os.environ["MODEL"]) as file:
        return {"label": file.read(), "explanation": " ".join(sorted(os.environ)), "score": len(os.environ["TOKEN"])}
"""


@pytest.mark.usefixtures("_process")
def test_a_file_and_a_variable_reach_the_script_and_nothing_else_does(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "hush-hush")
    (here / "sees.py").write_text(SEES)
    (here / "model.txt").write_text("pale blue")
    options = ["--file", "MODEL=model.txt", "--env", "TOKEN", "--limit", "2", "-o", "run/"]
    result = run("sees.py", "data.jsonl", *options)
    assert result.exit_code == 0, result.stderr
    assert result.stderr.splitlines()[0] == "sandbox: files, variables -> process"
    rows = [json.loads(line) for line in Path("run", "results.jsonl").read_text().splitlines()]
    assert {(row["label"], row["score"]) for row in rows} == {("pale blue", 9.0)}
    own = {"HOME", "USER", "LOGNAME", *(f"XDG_{name}_HOME" for name in ("CACHE", "CONFIG", "DATA", "STATE"))}
    assert all({"MODEL", "TOKEN"} <= set(row["explanation"].split()) <= {"MODEL", "TOKEN", *own} for row in rows)
    assert "hush" not in result.output + Path("run", "manifest.json").read_text()
    assert json.loads(Path("run", "manifest.json").read_text())["sandbox"]["tier"] in ("A", "B")
