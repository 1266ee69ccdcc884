"""The page's scripts and styles: what they weigh, what they are locked to, and what a build says that cannot fetch."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import sys
from pathlib import Path

import pytest

from runner.server.http.web import static
from runner.server.http.web.build import bundle

MOST = 250_000
"""Bytes of all that a page may load, by gzip."""


def test_everything_together_is_small() -> None:
    files = [static.find(name) for name in static.names().values()]
    assert len(files) == 4
    assert sum(len(file.compressed) for file in files if file) <= MOST
    assert all(file and gzip.decompress(file.compressed) == file.content for file in files)


def test_a_name_has_the_hash_of_its_content_and_no_other_is_found() -> None:
    for entry, name in static.names().items():
        file = static.find(name)
        assert file is not None
        stem, digest, suffix = name.split(".")
        assert (f"{stem}.{suffix}", digest) == (entry, hashlib.sha256(file.content).hexdigest()[:12])
    assert [static.find(name) for name in ("", "../static.py", "manifest.json", ".lock", "page.css")] == [None] * 5


def test_nothing_needs_what_the_policy_forbids_or_comes_from_elsewhere() -> None:
    css = static.find(static.names()["page.css"])
    assert css is not None
    assert not re.search(rb"url\(|https?:|@import", css.content)
    page = static.find(static.names()["page.js"])
    assert page is not None
    assert not re.search(rb"\beval\(|https?://(?!www\.w3\.org/)", page.content)


def test_the_lock_has_a_hash_of_each_package_and_names_no_registry() -> None:
    lock = json.loads((bundle.WEB / "build" / "package-lock.json").read_text("utf-8"))
    wanted = json.loads((bundle.WEB / "build" / "package.json").read_text("utf-8"))["devDependencies"]
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert len(packages) > len(wanted)
    for name, entry in packages.items():
        algorithm, _, digest = entry["integrity"].partition("-")
        assert (algorithm, len(base64.b64decode(digest))) == ("sha512", 64), name
        assert "resolved" not in entry, name
    for name, version in wanted.items():
        assert re.fullmatch(r"\d+\.\d+\.\d+", version)
        assert packages[f"node_modules/{name}"]["version"] == version
    assert "codemirror" not in wanted  # 6.65.7 of that name is CodeMirror 5


def test_the_notice_names_what_is_in_it() -> None:
    notice = (bundle.WEB.parents[3] / "NOTICE").read_text("utf-8")
    lock = json.loads((bundle.WEB / "build" / "package-lock.json").read_text("utf-8"))
    bundled = [name.removeprefix("node_modules/") for name in lock["packages"] if name and "esbuild" not in name]
    words = {"@codemirror": "CodeMirror", "@lezer": "Lezer", "htmx.org": "htmx", "@marijn": "find-cluster-break"}
    assert [name for name in bundled if words.get(name.split("/")[0], name) not in notice] == []


def test_a_build_that_cannot_fetch_says_so_in_one_line(tmp_path: Path) -> None:
    npm = tmp_path / "npm-cli.py"
    npm.write_text("print('npm error code ENOTFOUND\\nnpm error errno ENOTFOUND'); raise SystemExit(1)")
    with pytest.raises(bundle.PageBuildError) as caught:
        bundle.install(Path(sys.executable), npm, tmp_path)
    assert re.search(r"ENOTFOUND.*: give npm a registry", str(caught.value))
    assert "\n" not in str(caught.value)


def test_a_bundle_that_is_whole_and_of_these_sources_is_current(tmp_path: Path) -> None:
    inputs = bundle.input_hash()
    assert bundle.is_current(bundle.OUTPUT, inputs)
    assert not bundle.is_current(bundle.OUTPUT, "other")
    for path in bundle.OUTPUT.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert bundle.is_current(tmp_path, inputs)
    (tmp_path / static.names()["page.js"]).write_bytes(b"alert(1)")
    assert not bundle.is_current(tmp_path, inputs)
