"""What a file of somebody else may do by itself: nothing leaves, and nothing is written outside its folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from runner import InputError, evaluate_project
from sandboxes.errors import SandboxUnavailableError, UnsupportedConfigError
from sandboxes.remote.credentials import Variables, accounts, provider_of
from tests.cli.commands import evalcell
from tests.cli.folders import KEY, Folders

TOP = 'dataset = "rows.jsonl"\nevaluator = "same.py"\njobs = 1\n'
SAME = "def evaluate(output, reference):\n    return float(output == reference)\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a project."""
    place = tmp_path / "project"
    place.mkdir()
    (place / "rows.jsonl").write_text('{"output": "a", "reference": "a"}\n')
    (place / "same.py").write_text(SAME)
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, list[str]]]:
    """The address of a host of somebody else, and what it was sent."""
    sent: list[str] = []

    class Listening(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent.append(f"{self.path} {self.headers}")
            self.send_response(401)
            self.send_header("content-length", "0")
            self.end_headers()

        do_POST = do_PUT = do_DELETE = do_GET

    with HTTPServer(("127.0.0.1", 0), Listening) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", sent
        server.shutdown()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('sandbox = "e2b"', '`sandbox = "e2b"` sends scripts and rows to a provider'),
        ('sandbox = "daytona"', '`sandbox = "daytona"` sends scripts and rows to a provider'),
        ('on = "ray"', '`on = "ray"` sends scripts and rows to a cluster'),
        ('on = "ray://127.0.0.1:10001"', '`on = "ray://127.0.0.1:10001"` sends scripts and rows to a cluster'),
        ("allow_network = true", "`allow_network` lets scripts reach any host"),
        ("allow_weak_isolation = true", "`allow_weak_isolation` lets scripts read your files"),
        ('output = "../out/"', "`output` writes {above}/out, outside the file's folder"),
        ('output = ["in.jsonl", "../out.jsonl"]', "`output` writes {above}/out.jsonl, outside the file's folder"),
        ('output = "{above}/out/"', "`output` writes {above}/out, outside the file's folder"),
        ('output = "link/out/"', "`output` writes {above}/out, outside the file's folder"),
        ('output = "file.jsonl"', "`output` writes {above}/kept.jsonl, outside the file's folder"),
        ('report = "link/r.md"', "`report` writes {above}/r.md, outside the file's folder"),
    ],
)
def test_a_file_does_not_decide_what_leaves(line: str, said: str, here: Path) -> None:
    line, said = (text.replace("{above}", str(here.parent)) for text in (line, said))
    (here / "link").symlink_to(here.parent)
    (here.parent / "kept.jsonl").write_text("kept\n")
    (here / "file.jsonl").symlink_to(here.parent / "kept.jsonl")
    (here / "evalcell.toml").write_text(f"{TOP}{line}\n")
    for words in (["run"], ["run", "default"], ["run", "--config", "evalcell.toml"], ["run", "--config", str(here)]):
        done = evalcell(*words)
        assert done.exit_code == 2, done.output
        assert f"evalcell.toml, run default: {said}" in done.stderr
        assert done.stderr.endswith("if you trust it, add --trust-config\n")
    with pytest.raises(InputError, match=r"add `trust_config`$"):
        evaluate_project(progress=False)
    assert f"your word    {said}" in evalcell("config", COLUMNS="400").stdout
    assert sorted(os.listdir(here.parent)) == ["kept.jsonl", "project"]
    assert (here.parent / "kept.jsonl").read_text() == "kept\n"


def test_one_of_several_evaluators_has_a_link_for_its_folder(here: Path) -> None:
    (here / "results").mkdir()
    (here / "results" / "same").symlink_to(here.parent)
    (here / "evalcell.toml").write_text(
        'dataset = "rows.jsonl"\nevaluators = ["same.py", "exact-match"]\noutput = "results/"\n'
        'map = { "exact-match.expected" = "reference", "exact-match.actual" = "output" }\n'
    )
    done = evalcell("run")
    assert (done.exit_code, "-o results: same in it is a link; move it away" in done.stderr) == (2, True), done.output
    assert evalcell("run", "--trust-config").stderr == done.stderr


def test_with_the_callers_word_it_runs(here: Path) -> None:
    (here / "evalcell.toml").write_text(f'{TOP}output = "../out/"\n')
    assert evalcell("run", "--trust-config", "-q").exit_code == 0
    assert (here.parent / "out" / "results.jsonl").is_file()
    (report,) = evaluate_project(trust_config=True, resume=True, progress=False).values()
    assert report.summary.mean == 1
    wrong = evalcell("run", "same.py", "rows.jsonl", "--trust-config")
    assert (wrong.exit_code, "--trust-config is for what evalcell.toml says" in wrong.stderr) == (2, True)


def test_what_stays_in_its_folder_needs_no_word(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "evalcell.toml").write_text(f'{TOP}output = "results/"\nreport = "sub/../r.md"\nbaseline = "../b/"\n')
    (here / "sub").mkdir()
    (here.parent / "other").symlink_to(here)  # the folder itself may have several names
    monkeypatch.chdir(here.parent)
    text = (here / "evalcell.toml").read_text().replace('baseline = "../b/"\n', "")
    (here / "evalcell.toml").write_text(text)
    assert evalcell("run", "--config", "other", "-q").exit_code == 0
    assert evalcell("config", "--config", "other").stdout.count("your word") == 0


def test_config_shows_all_that_a_run_does(here: Path, host: tuple[str, list[str]]) -> None:
    address, sent = host
    digest = "0" * 64
    (here / "l.lock").write_text(f"six==1.17.0 --hash=sha256:{digest}\n")
    (here / ".env").write_text(f"E2B_API_URL={address}\nE2B_API_KEY=e2b_theirs\nTHEIRS=x\n")
    (here / "evalcell.toml").write_text(
        f'{TOP}[run.a]\nsandbox = "e2b"\nenv_file = ".env"\nenv = ["HOME", "THEIRS"]\nwith = ["six"]\nlock = "l.lock"\n'
        'file = { KEY = "/etc/hostname" }\nallow_network = true\noutput = "../out/"\nbaseline = "../b.jsonl"\n'
        f'[run.b]\nsandbox = "process"\ncache = true\nwith = "{"x" * 300}"\n[run.c]\non = "ray://evil.test:10001"\n'
    )
    done = evalcell("config", COLUMNS="500")
    assert done.exit_code == 0, done.output
    lines = {" ".join(line.split()) for line in done.stdout.splitlines()}
    assert lines >= {
        "runs in as asked -> e2b, at its provider",
        "sends scripts, rows, files and variables to e2b",
        next(line for line in lines if line.startswith(f"E2B_API_KEY of .env to {address}/key-")),
        "what scripts send: they may reach any host",
        "reads ../b.jsonl to compare with",
        ".env, which sets E2B_API_URL, E2B_API_KEY, THEIRS",
        "scripts see file KEY: /etc/hostname",
        "variable HOME of your environment",
        "variable THEIRS of .env",
        "the network",
        "installs six",
        "by l.lock: six==1.17.0",
        f"writes ../out/, which is {here.parent}/out",
        f"installs {'x' * 300}",
        "writes scores to your cache",
        "sends scripts, rows, files and variables to the cluster ray://evil.test:10001",
    }
    assert "e2b_theirs" not in done.stdout
    (here / ".env").write_text(f"E2B_API_URL={address}\n")
    shown = evalcell("config", COLUMNS="500", E2B_API_KEY="e2b_mine").stdout
    assert "no key: --env-file .env sets E2B_API_URL, and E2B_API_KEY is of your environment" in shown
    assert sent == []


@pytest.mark.parametrize(
    ("name", "keys", "addresses", "settings"),
    [
        ("e2b", "E2B_API_KEY", "E2B_API_URL E2B_DOMAIN E2B_SANDBOX_URL", "EVALCELL_E2B_TEMPLATE"),
        ("daytona", "DAYTONA_API_KEY", "DAYTONA_API_URL", "DAYTONA_ORGANIZATION_ID DAYTONA_TARGET"),
        ("modal", "MODAL_TOKEN_ID MODAL_TOKEN_SECRET", "MODAL_SERVER_URL", "MODAL_ENVIRONMENT EVALCELL_MODAL_APP"),
        ("vercel", "VERCEL_TOKEN", "EVALCELL_VERCEL_URL", "VERCEL_TEAM_ID VERCEL_PROJECT_ID"),
        ("vercel", "VERCEL_OIDC_TOKEN", "EVALCELL_VERCEL_URL", "EVALCELL_VERCEL_IMAGE"),
        ("folder", "FOLDER_KEY", "FOLDER_ROOT", ""),  # a third party's, which knows nothing of this
    ],
)
def test_no_provider_takes_an_address_of_a_file_with_a_key_of_the_environment(
    name: str, keys: str, addresses: str, settings: str, here: Path, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = provider_of(name)
    assert provider is not None
    values = dict.fromkeys(keys.split(), "value") | dict.fromkeys(("VERCEL_TEAM_ID", "VERCEL_PROJECT_ID"), "t")
    if "VERCEL_OIDC_TOKEN" in values:
        values["VERCEL_OIDC_TOKEN"] = "x.eyJvd25lcl9pZCI6InQiLCJwcm9qZWN0X2lkIjoicCJ9.x"
    env = here / ".env"
    for at, value in values.items():
        monkeypatch.setenv(at, value)
    env.write_text("".join(f"{at}=other\n" for at in settings.split()))
    provider(Variables(provider, str(env)))
    for address in addresses.split():
        where = "evil.test" if address == "E2B_DOMAIN" else "https://evil.test"
        monkeypatch.delenv(address, raising=False)
        env.write_text(f"{address}={where}\n")
        with pytest.raises(UnsupportedConfigError, match=rf"sets {address}, and {keys.split()[0]} is of your"):
            provider(Variables(provider, str(env)))
        with pytest.raises(UnsupportedConfigError):
            accounts(str(env), name)
        assert name in accounts(str(env)).unusable
        monkeypatch.setenv(address, where)  # the same in both
        provider(Variables(provider, str(env)))
        monkeypatch.delenv(address)
        env.write_text(f"{address}={where}\n" + "".join(f"{at}={value}x\n" for at, value in values.items()))
        assert Variables(provider, str(env)).own == []
        if "VERCEL_OIDC_TOKEN" not in values:
            provider(Variables(provider, str(env)))
    if len(keys.split()) > 1:  # half of a key
        env.write_text(f"{keys.split()[0]}=theirs\n{addresses}=https://evil.test\n")
        with pytest.raises(UnsupportedConfigError, match=rf"and {keys.split()[1]} is of your"):
            provider(Variables(provider, str(env)))
    for at in values:
        monkeypatch.delenv(at)
    env.write_text("")
    if name != "folder":
        with pytest.raises(SandboxUnavailableError):
            provider(Variables(provider, str(env)))


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--trust-config"],
        ["run", "same.py", "rows.jsonl", "--sandbox", "e2b", "--env-file", ".env"],
        ["sandboxes", "--try", "e2b", "--env-file", ".env"],
        ["sandboxes", "--live", "--env-file", ".env"],
        ["reap", "--env-file", ".env"],
        ["reap", "--provider", "e2b", "--env-file", ".env"],
    ],
)
def test_a_key_of_the_environment_reaches_no_host_that_a_file_names(
    words: list[str], here: Path, host: tuple[str, list[str]], folders: Folders
) -> None:
    address, sent = host
    (here / ".env").write_text(f"E2B_API_URL={address}\nE2B_SANDBOX_URL={address}\n")
    (here / "evalcell.toml").write_text(f'{TOP}sandbox = "e2b"\nenv_file = ".env"\n')
    done = evalcell(*words, E2B_API_KEY="e2b_mine", FOLDER_KEY=KEY)
    assert done.exit_code in (2, 3), done.output
    assert ".env sets E2B_API_URL, and E2B_API_KEY is of your environment" in done.stderr
    assert sent == []
    evalcell(*words, E2B_API_KEY="e2b_mine", E2B_API_URL=address, E2B_SANDBOX_URL=address, FOLDER_KEY=KEY)
    assert sent  # where the user says so, it is asked
