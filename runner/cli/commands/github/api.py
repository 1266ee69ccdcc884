"""Comments and artifacts of GitHub, for `evalcell github`. What GitHub answers is not trusted."""

from __future__ import annotations

import json
import os
import re
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import httpx

from runner.cli.exit_codes import COULD_NOT_JUDGE
from runner.core.text import printable
from runner.results.reports.markup import mark
from sandboxes.host.regular import read_regular

_LIMIT = 65_536
"""Characters of a comment, as GitHub counts."""
_ANSWER = 16 << 20
_ARCHIVE = 512 << 20
_FILE = 2 << 30
_PAGES = 20
_SECONDS = 30.0
_REPOSITORY = re.compile(r"[A-Za-z0-9_-]{1,100}/[A-Za-z0-9._-]{1,100}")
_FILES = ("results.jsonl", "manifest.json", "requirements.lock")


class GitHubError(click.ClickException):
    """GitHub refuses, or cannot be reached."""

    exit_code = COULD_NOT_JUDGE


def write_comment(name: str, report: str) -> str:
    """Write the report as a comment on the job's pull request, or update that of an earlier job. Raises GitHubError."""
    number = _pull_request()
    if number is None:
        return "this job is not of a pull request, so there is nothing to comment on"
    own_mark = mark(name)
    try:
        text = read_regular(report, _ANSWER).decode("utf-8", "replace").partition("\n")[2]
    except (OSError, ValueError):
        text = "\n### ⚠️ evalcell wrote no report\n\nThe log of the job says why."
    body = f"{own_mark}\n{text}"
    with _client() as client:
        place = f"issues/{number}/comments"
        own = next((found["id"] for found in _pages(client, place) if _is_ours(found, own_mark)), None)
        where = place if own is None else f"issues/comments/{own}"
        _call(client, "POST" if own is None else "PATCH", where, json={"body": body[:_LIMIT]})
    return f"{'wrote' if own is None else 'updated'} the comment on pull request {number}"


def _is_ours(found: Any, own_mark: str) -> bool:
    """True for a comment of a job: anybody may write the mark, and ours must not replace theirs."""
    if not isinstance(found, dict) or not isinstance(found.get("id"), int):
        return False
    user, body = found.get("user"), found.get("body")
    by_job = isinstance(user, dict) and user.get("type") == "Bot"
    return by_job and isinstance(body, str) and body.startswith(own_mark)


def fetch_baseline(name: str, branch: str, folder: str) -> None:
    """Put the results of the newest artifact of this name and branch into a folder. Raises GitHubError."""
    with _client() as client:
        every = _pages(client, "actions/artifacts", key="artifacts", params={"name": name})
        found = [artifact for artifact in every if _is_of(artifact, name, branch)]
        if not found:
            raise GitHubError(
                f"there is no artifact {printable(name, 60)!r} of the branch {printable(branch, 60)!r} yet; "
                "let the workflow run on that branch first"
            )
        newest = max(found, key=lambda artifact: artifact["id"])
        with tempfile.TemporaryFile() as file:
            _download(client, f"actions/artifacts/{newest['id']}/zip", file)
            _unpack(file, Path(folder))


def _is_of(artifact: Any, name: str, branch: str) -> bool:
    """True for an artifact of a job of this repository. A fork may have a branch of the same name."""
    if not isinstance(artifact, dict) or not isinstance(artifact.get("id"), int):
        return False
    run = artifact.get("workflow_run")
    if not isinstance(run, dict) or run.get("repository_id") is None:
        return False
    own = run.get("repository_id") == run.get("head_repository_id") and run.get("head_branch") == branch
    return own and artifact.get("name") == name and artifact.get("expired") is False


def _unpack(file: Any, folder: Path) -> None:
    """The files of a run out of an archive, each of bounded size."""
    try:
        with zipfile.ZipFile(file) as archive:
            names = set(archive.namelist())
            for name in _FILES:
                if f"run/{name}" in names:
                    _copy(archive, f"run/{name}", folder / name)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError) as error:
        raise GitHubError(f"the artifact is no whole archive ({printable(str(error), 80)}); delete it") from None
    if not (folder / _FILES[0]).is_file():
        raise GitHubError(f"the artifact has no run/{_FILES[0]}; is it one of this action?")


def _copy(archive: zipfile.ZipFile, name: str, place: Path) -> None:
    left = _FILE
    place.unlink(missing_ok=True)  # a link there is not followed
    with archive.open(name) as source, place.open("xb") as target:
        while data := source.read(1 << 20):
            left -= len(data)
            if left < 0:
                raise GitHubError(f"{place.name} in the artifact is larger than {_FILE >> 30} GB")
            target.write(data)


def _pull_request() -> int | None:
    """The number of the pull request that the job is of."""
    try:
        event = json.loads(read_regular(os.environ.get("GITHUB_EVENT_PATH", ""), _ANSWER))
        number = event["pull_request"]["number"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def _client() -> httpx.Client:
    """A client of GitHub's REST API for the job's repository. Raises GitHubError outside of a job."""
    token, repository = os.environ.get("GITHUB_TOKEN", ""), os.environ.get("GITHUB_REPOSITORY", "")
    if not token or not _REPOSITORY.fullmatch(repository):
        raise GitHubError("GITHUB_TOKEN and GITHUB_REPOSITORY are not set as in a job of GitHub Actions")
    return httpx.Client(
        base_url=f"{os.environ.get('GITHUB_API_URL', 'https://api.github.com').rstrip('/')}/repos/{repository}",
        headers={
            "Authorization": f"Bearer {token}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
            "User-Agent": "evalcell",
        },
        timeout=_SECONDS,
    )


def _pages(
    client: httpx.Client, path: str, key: str | None = None, params: dict[str, str] | None = None
) -> Iterator[Any]:
    """All items of a list, in pages."""
    for page in range(1, _PAGES + 1):
        found = _call(client, "GET", path, params={"per_page": "100", "page": str(page), **(params or {})})
        items = found if key is None else found.get(key) if isinstance(found, dict) else None
        if not isinstance(items, list):
            raise GitHubError(f"GitHub answers {path} with something else than a list")
        yield from items
        if len(items) < 100:
            return


def _call(client: httpx.Client, method: str, path: str, **more: Any) -> Any:
    """One request; the answer is parsed."""
    data = b"".join(_stream(client, method, path, _ANSWER, **more))
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise GitHubError(f"GitHub answers {path} with something else than JSON") from None


def _download(client: httpx.Client, path: str, file: Any) -> None:
    """Write an answer to a file."""
    # It leads to a storage, which must not get the token: a client takes it off where the host is another.
    for data in _stream(client, "GET", path, _ARCHIVE, follow_redirects=True):
        file.write(data)
    file.seek(0)


def _stream(client: httpx.Client, method: str, path: str, most: int, **more: Any) -> Iterator[bytes]:
    try:
        with client.stream(method, path, **more) as answer:
            if not answer.is_success:
                reason = _WHY.get(answer.status_code, "try again")
                raise GitHubError(f"GitHub answers {method} {path} with {answer.status_code}; {reason}")
            for data in answer.iter_bytes():
                most -= len(data)
                if most < 0:
                    raise GitHubError(f"GitHub's answer to {path} is too large")
                yield data
    except httpx.HTTPError as error:
        raise GitHubError(f"GitHub cannot be reached ({type(error).__name__}); try again") from None


_WHY = {
    401: "the token is not valid",
    403: "the job lacks a permission (pull-requests: write, actions: read), as for a pull request from a fork",
    404: "the job lacks a permission (pull-requests: write, actions: read), as for a pull request from a fork",
}
