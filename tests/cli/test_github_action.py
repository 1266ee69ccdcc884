"""action.yml: its shell steps, run as GitHub runs them, with a local stand-in of GitHub's API."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.commands import evalcell, write_rows

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
STEPS = {step.get("id", "upload"): step for step in ACTION["runs"]["steps"]}
EVIL = "$(touch pwned) `touch pwned` '; touch pwned; \"; touch pwned; # \n touch pwned\n"


@dataclass
class Hub:
    """A stand-in of GitHub: comments and artifacts of one repository."""

    url: str = ""
    comments: list[dict[str, Any]] = field(default_factory=list)
    artifacts: list[dict[str, Any]] = field(default_factory=list)
    archives: dict[int, bytes] = field(default_factory=dict)
    requests: list[tuple[str, str, bool]] = field(default_factory=list)
    refuse: int = 0


@pytest.fixture
def hub() -> Iterator[Hub]:
    state = Hub()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def _answer(self, status: int, body: Any, **headers: str) -> None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.removeprefix("/repos/o/r/")
            state.requests.append((self.command, path, self.headers.get("Authorization") == "Bearer secret"))
            if state.refuse:
                self._answer(state.refuse, {})
            elif self.command == "GET" and path.startswith("issues/7/comments?"):
                page = int(re.findall(r"[?&]page=(\d+)", path)[0])
                self._answer(200, state.comments[100 * (page - 1) : 100 * page])
            elif self.command == "POST" and path == "issues/7/comments":
                state.comments.append({"id": 900 + len(state.comments), "user": {"type": "Bot"}} | json.loads(body))
                self._answer(201, state.comments[-1])
            elif self.command == "PATCH" and path.startswith("issues/comments/"):
                found = next(one for one in state.comments if one["id"] == int(path.rpartition("/")[2]))
                found |= json.loads(body)
                self._answer(200, found)
            elif path.startswith("actions/artifacts?"):
                self._answer(200, {"artifacts": state.artifacts})
            elif path.startswith("actions/artifacts/"):
                number = path.split("/")[2]
                # The storage is another host.
                self._answer(302, {}, Location=f"{state.url.replace('127.0.0.1', 'localhost')}/archive/{number}")
            elif path.startswith("/archive/"):
                self._answer(200, state.archives[int(path.rpartition("/")[2])])
            else:
                self._answer(404, {})

        do_GET = do_POST = do_PATCH = _serve

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield state
    server.shutdown()
    server.server_close()


class Job:
    """One job: runs steps of the action, with what GitHub sets around them."""

    def __init__(self, folder: Path, hub: Hub, base: str = "", pull_request: bool = True, **inputs: str) -> None:
        self.folder = folder
        for name in ("runner", "work"):
            (folder / name).mkdir(exist_ok=True)
        event = {"pull_request": {"number": 7, "title": EVIL}} if pull_request else {}
        (folder / "event.json").write_text(json.dumps(event))
        defaults = {name: str(one.get("default", "")) for name, one in ACTION["inputs"].items()}
        self.values = {f"inputs.{name}": value for name, value in (defaults | inputs).items()}
        self.values |= {"inputs.token": "secret", "github.action_path": str(ROOT)}
        here = os.path.dirname(sys.executable)
        self.env = {
            **{"PATH": f"{here}:{os.environ['PATH']}", "HOME": os.environ.get("HOME", "/"), "LANG": "C.UTF-8"},
            **{"RUNNER_TEMP": str(folder / "runner"), "GITHUB_API_URL": hub.url, "GITHUB_REPOSITORY": "o/r"},
            **{"GITHUB_EVENT_PATH": str(folder / "event.json"), "GITHUB_BASE_REF": base, "GITHUB_HEAD_REF": EVIL},
            **{"GITHUB_OUTPUT": str(folder / "output"), "GITHUB_PATH": str(folder / "path")},
        }
        self.env |= {name: value for name, value in os.environ.items() if name.startswith("EVALCELL_")}

    def value(self, text: str) -> str:
        return re.sub(r"\$\{\{ ([\w.-]+) \}\}", lambda found: self.values[found[1]], text)

    def step(self, id: str) -> subprocess.CompletedProcess[str]:
        step = STEPS[id]
        env = self.env | {name: self.value(value) for name, value in step["env"].items()}
        done = subprocess.run(
            # As GitHub runs `shell: bash`.
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            env=env,
            cwd=self.folder / "work",
            capture_output=True,
            text=True,
        )
        output = self.folder / "output"
        for line in output.read_text().splitlines() if output.exists() else ():
            name, _, value = line.partition("=")
            self.values[f"steps.{id}.outputs.{name}"] = value
        for kind in ("exit-code", "folder"):
            self.values.setdefault(f"steps.run.outputs.{kind}", "")
        assert not list(self.folder.rglob("pwned"))
        return done

    def all(self) -> int:
        """All steps; the exit code of the last."""
        for id in ("install", "run", "comment"):
            self.last = self.step(id)
        return self.step("verdict").returncode


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    header = '# /// script\n# [tool.evalcell]\n# output = {kind = "continuous", direction = "maximize"}\n# ///\n'
    (folder / "same.py").write_text(
        f"{header}def evaluate(output, reference):\n    return float(output == reference)\n"
    )
    (folder / "data.jsonl").write_text(
        '{"id": "a", "output": "x", "reference": "x"}\n{"id": "b", "output": 1, "reference": 2}\n'
    )
    return folder


def test_inputs_reach_the_shell_as_variables_alone() -> None:
    for id, step in STEPS.items():
        assert "${{" not in step.get("run", ""), id
        assert step.get("shell", "bash") == "bash"
    assert all(one.get("description") for one in (*ACTION["inputs"].values(), *ACTION["outputs"].values()))
    # Another action is named by a commit: a tag may be moved.
    uses = [step["uses"] for step in ACTION["runs"]["steps"] if "uses" in step]
    assert all(re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", name) for name in uses)
    named = {found for step in STEPS.values() for found in re.findall(r"inputs\.([\w-]+)", json.dumps(step))}
    assert named == ACTION["inputs"].keys()


@pytest.mark.rotating("long tests", "reports")
def test_a_run_its_comment_and_its_exit_code(tmp_path: Path, work: Path, hub: Hub) -> None:
    hub.comments += [{"id": n, "body": "hello", "user": {"type": "User"}} for n in range(150)]
    hub.comments.append({"id": 500, "body": "<!-- evalcell:mine -->\nnot of a job", "user": {"type": "User"}})
    options = "  --require=mean>=0.4\n\n--limit=2\r\n"
    job = Job(tmp_path, hub, evaluator="same.py", dataset="data.jsonl", name="mine", options=options)
    assert job.all() == 0, job.last.stderr
    folder = Path(job.values["steps.run.outputs.folder"])
    assert {path.name for path in folder.iterdir()} == {"report.html", "report.md", "junit.xml", "run"}
    (first,) = [one for one in hub.comments if one["user"]["type"] == "Bot"]
    assert first["body"].startswith("<!-- evalcell:mine -->\n\n### ✅ <code>same</code>: passed\n")

    failing = Job(tmp_path, hub, evaluator="same.py", dataset="data.jsonl", name="mine", options="--require=mean>=0.9")
    assert failing.all() == 1
    (second,) = [one for one in hub.comments if one["user"]["type"] == "Bot"]
    assert second["id"] == first["id"]
    assert "❌" in second["body"]
    assert hub.comments[150]["body"].endswith("not of a job")
    assert all(signed for _, _, signed in hub.requests)


@pytest.mark.rotating("action.yml with a baseline", "reports")
def test_the_baseline_of_the_target_branch_decides(tmp_path: Path, work: Path, hub: Hub) -> None:
    inputs: Any = {"evaluator": "same.py", "dataset": "data.jsonl", "name": "mine", "baseline": "auto"}
    rows = [{"id": f"r{n}", "output": "x", "reference": "x"} for n in range(40)]
    write_rows(work / "data.jsonl", rows)
    push = Job(tmp_path, hub, pull_request=False, **inputs)
    assert push.all() == 0, push.last.stderr
    results = (Path(push.values["steps.run.outputs.folder"]) / "run" / "results.jsonl").read_text()

    first = Job(tmp_path, hub, "main", **inputs)  # the branch has no results yet
    assert first.all() == 3
    hub.artifacts, hub.archives = [artifact(5)], {5: archive(**{"run/results.jsonl": results})}
    assert Job(tmp_path, hub, "main", **inputs).all() == 0
    half = archive(**{"run/results.jsonl": results, "run/manifest.json": "{}"})
    hub.archives = {5: half.replace(b"manifest.json{}", b"manifest.jsoN{}")}
    assert Job(tmp_path, hub, "main", **inputs).all() == 3
    hub.archives = {5: archive(**{"run/results.jsonl": results})}
    write_rows(work / "data.jsonl", [row | ({"output": "y"} if n % 2 else {}) for n, row in enumerate(rows)])
    assert Job(tmp_path, hub, "main", **inputs).all() == 1
    (comment,) = hub.comments
    assert "### ❌ <code>comparison of same</code>: worse" in comment["body"]


@pytest.mark.rotating("action.yml with hostile inputs", "reports")
@pytest.mark.parametrize("where", ["evaluator", "dataset", "options", "name", "baseline", "fail-if-worse"])
def test_hostile_inputs_are_text(tmp_path: Path, work: Path, hub: Hub, where: str) -> None:
    inputs: Any = {"evaluator": "same.py", "dataset": "data.jsonl"} | {where: EVIL}
    job = Job(tmp_path, hub, EVIL, **inputs)
    assert job.all() == {"name": 0, "fail-if-worse": 0, "baseline": 3}.get(where, 2), job.last.stderr
    (comment,) = hub.comments
    mark = "touch-pwned-touch-pwned" if where == "name" else "evalcell -->"
    assert mark in comment["body"].partition("\n")[0]


@pytest.mark.rotating("action.yml without rights", "reports")
def test_without_the_right_to_comment_the_check_is_the_same(tmp_path: Path, work: Path, hub: Hub) -> None:
    hub.refuse = 403
    job = Job(tmp_path, hub, evaluator="same.py", dataset="data.jsonl", options="--require=mean>=0.9")
    assert job.all() == 1
    assert "the job lacks a permission" in job.last.stderr
    assert "secret" not in job.last.stderr + job.last.stdout
    hub.refuse = 0
    push = Job(tmp_path, hub, pull_request=False, evaluator="same.py", dataset="data.jsonl")
    assert push.all() == 0
    assert "not of a pull request" in push.last.stderr
    assert hub.comments == []


def test_a_job_that_stopped_before_a_verdict_does_not_pass(tmp_path: Path, work: Path, hub: Hub) -> None:
    job = Job(tmp_path, hub)
    job.values["steps.run.outputs.exit-code"] = ""
    assert job.step("verdict").returncode == 3


def archive(**files: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as made:
        for name, text in files.items():
            made.writestr(name, text)
    return data.getvalue()


def broken(kind: int) -> bytes:
    """An archive whose file begins with another byte."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", kind) as made:
        made.writestr("run/results.jsonl", "text " * 9)
    before, name, after = data.getvalue().partition(b"results.jsonl")
    return before + name + b"\xff" + after[1:]


def artifact(id: int, branch: str = "main", **more: Any) -> dict[str, Any]:
    run = {"head_branch": branch, "repository_id": 1, "head_repository_id": more.pop("fork", 1)}
    return {"id": id, "name": "mine", "expired": False, "workflow_run": run} | more


def fetch(hub: Hub, folder: Path, **env: str) -> Any:
    env = {"GITHUB_API_URL": hub.url, "GITHUB_REPOSITORY": "o/r", "GITHUB_TOKEN": "secret"} | env
    return evalcell("github", "baseline", "--name", "mine", "--branch", "main", str(folder), **env)


def test_the_newest_baseline_of_the_branch_is_fetched(tmp_path: Path, hub: Hub) -> None:
    hub.artifacts = [
        *(artifact(1), artifact(5), artifact(3), artifact(9, branch="feature"), artifact(10, fork=2)),
        *(artifact(11, expired=True), artifact(12, name="other"), {"id": 13}, artifact(14) | {"workflow_run": {}}),
    ]
    hub.archives = {
        5: archive(run__results_jsonl="no", **{"run/results.jsonl": "five", "../evil": "x", "report.html": ""})
    }
    assert fetch(hub, tmp_path).exit_code == 0
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"results.jsonl": "five"}
    # The storage did not get the token.
    assert [(path, signed) for _, path, signed in hub.requests][-1] == ("/archive/5", False)


@pytest.mark.parametrize(
    ("archives", "said"),
    [
        ({}, "there is no artifact 'mine' of the branch 'main' yet"),
        ({4: b"no archive"}, "the artifact is no whole archive"),
        ({4: broken(zipfile.ZIP_STORED)}, "the artifact is no whole archive"),
        ({4: broken(zipfile.ZIP_DEFLATED)}, "the artifact is no whole archive"),
        ({4: archive(**{"run/one/results.jsonl": "of one of several"})}, "the artifact has no run/results.jsonl"),
        ({4: archive(report="")}, "the artifact has no run/results.jsonl"),
    ],
)
def test_a_baseline_that_is_not_there_is_no_verdict(
    tmp_path: Path, hub: Hub, archives: dict[int, bytes], said: str
) -> None:
    hub.archives, hub.artifacts = archives, [artifact(n) for n in archives]
    done = fetch(hub, tmp_path)
    assert (done.exit_code, len(done.stderr.splitlines())) == (3, 1)
    assert said in done.stderr


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"GITHUB_TOKEN": ""}, "are not set as in a job"),
        ({"GITHUB_REPOSITORY": "../x"}, "are not set as in a job"),
        ({"GITHUB_API_URL": "http://127.0.0.1:9"}, "GitHub cannot be reached (ConnectError)"),
    ],
)
def test_outside_of_a_job_it_says_what_is_missing(tmp_path: Path, hub: Hub, env: dict[str, str], said: str) -> None:
    done = fetch(hub, tmp_path, **env)
    assert (done.exit_code, len(done.stderr.splitlines())) == (3, 1)
    assert said in done.stderr
