"""The page's scripts and styles, bundled by esbuild from the locked packages of npm."""

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import filelock

from sandboxes.wasm.build.errors import GuestBuildError
from sandboxes.wasm.build.guest_cache import is_ours
from sandboxes.wasm.build.tools import cache_folder, node_and_npm, run_step, write_atomically

WEB = Path(__file__).resolve().parents[1]
OUTPUT = WEB / "_static"
MANIFEST = "manifest.json"
ENTRIES = ("page.js", "editor.js", "page.css", "icon.svg")
"""What pages name; each is one file of the bundle."""
SUFFIXES = (".js", ".css", ".svg")

_REPORT = WEB.parents[2] / "results" / "reports" / "html" / "page.css"  # page.css stands on it
_LOCKED = ("package.json", "package-lock.json")
_KEPT = 8
_SECONDS = 600
_ESBUILD = (
    *("--bundle", "--minify", "--format=esm", "--target=es2022", "--charset=utf8", "--legal-comments=none"),
    *("--log-level=warning", "--loader:.svg=copy"),
)

Report = Callable[[str], None]


class PageBuildError(Exception):
    """The page's files could not be built; the text is one line with the next step."""


def build_page(output: Path = OUTPUT, *, force: bool = False, report: Report | None = None) -> bool:
    """
    Make `output` hold the bundle of the present sources; whether it had to be built, as this machine's cache lacked it.

    The manifest is written last, so that an interrupted build never looks complete. Raises PageBuildError.
    """
    report = report or _to_stderr
    inputs = input_hash()
    output.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(output / ".lock"):
        if not force and is_current(output, inputs):
            report("page: up to date")
            return False
        kept = cache_folder() / "build" / f"page-{inputs[:32]}"
        found = None if force else _kept(kept, inputs)
        files = found or _build(inputs, report)
        _put(output, files)
        if found:
            report("page: as it was built before on this machine")
        else:
            _keep(kept, files)
    return not found


def sources() -> list[Path]:
    """Return all files that decide what the bundle is."""
    assets = sorted(path for path in (WEB / "assets").iterdir() if path.suffix in SUFFIXES)
    return [*assets, _REPORT, *(WEB / "build" / name for name in _LOCKED), Path(__file__).resolve()]


def input_hash() -> str:
    """Return a hash of all sources, by name and content."""
    digest = hashlib.sha256()
    for path in sources():
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def is_current(folder: Path, inputs: str) -> bool:
    """Say whether the folder holds the whole bundle of these inputs."""
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        names = manifest["files"]
        return (
            manifest["inputs"] == inputs
            and set(names) == set(ENTRIES)
            and all(_named(entry, (folder / name).read_bytes()) == name for entry, name in names.items())
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _build(inputs: str, report: Report) -> dict[str, bytes]:
    """The files by name, the manifest last."""
    report("page: fetching CodeMirror, htmx and esbuild, and bundling them (some seconds, once)")
    try:
        node, npm = node_and_npm()
        with tempfile.TemporaryDirectory(prefix="evalcell-page-") as scratch:
            folder = Path(scratch)
            for name in _LOCKED:
                shutil.copyfile(WEB / "build" / name, folder / name)
            install(node, npm, folder)
            shutil.copytree(WEB / "assets", folder / "server" / "http" / "web" / "assets")
            # The same places to one another as in the project, for `@import`.
            report_css = folder / "results" / "reports" / "html" / "page.css"
            report_css.parent.mkdir(parents=True)
            shutil.copyfile(_REPORT, report_css)
            entries = [str(folder / "server" / "http" / "web" / "assets" / name) for name in ENTRIES]
            program = folder / "node_modules" / "esbuild" / "bin" / "esbuild"
            command = [str(node), str(program), *entries, *_ESBUILD, f"--outdir={folder / 'made'}"]
            run_step("esbuild", command, folder=folder)
            made = {name: (folder / "made" / name).read_bytes() for name in ENTRIES}
    except GuestBuildError as error:
        raise PageBuildError(f"the page could not be built: {error}") from None
    names = {entry: _named(entry, content) for entry, content in made.items()}
    files = {names[entry]: content for entry, content in made.items()}
    return files | {MANIFEST: json.dumps({"inputs": inputs, "files": names}, indent=1).encode()}


def install(node: Path, npm: Path, folder: Path) -> None:
    """
    Install the locked packages in `folder`, under the user's settings of npm (mirror, proxy, certificates).

    npm checks each against the lock's hash. Raises PageBuildError.
    """
    command = [str(node), str(npm), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    try:
        run_step("npm ci", command, folder=folder, seconds=_SECONDS)
    except GuestBuildError as error:
        last = next((line for line in str(error).splitlines() if "error code" in line), str(error).splitlines()[0])
        raise PageBuildError(
            f"the page could not be built, as npm cannot fetch packages ({last.strip()[:200]}): give npm a registry "
            "that it can reach (npm_config_registry or .npmrc), or copy the cache folder of a machine that has built"
        ) from None


def _named(entry: str, content: bytes) -> str:
    stem, _, suffix = entry.rpartition(".")
    return f"{stem}.{hashlib.sha256(content).hexdigest()[:12]}.{suffix}"


def _kept(folder: Path, inputs: str) -> dict[str, bytes] | None:
    if not (all(map(is_ours, (cache_folder(), folder.parent, folder))) and is_current(folder, inputs)):
        return None
    with contextlib.suppress(OSError):
        names = [*json.loads((folder / MANIFEST).read_bytes())["files"].values(), MANIFEST]
        found = {name: (folder / name).read_bytes() for name in names}
        os.utime(folder)
        return found
    return None


def _keep(folder: Path, files: dict[str, bytes]) -> None:
    """Keep the bundle, if possible; a cache is not necessary."""
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _put(folder, files)
        for old in sorted(folder.parent.glob("page-*"), key=lambda path: path.stat().st_mtime)[:-_KEPT]:
            shutil.rmtree(old, ignore_errors=True)


def _put(folder: Path, files: dict[str, bytes]) -> None:
    (folder / MANIFEST).unlink(missing_ok=True)
    for old in folder.iterdir():
        if old.suffix in SUFFIXES and old.name not in files:
            old.unlink()
    for name, content in files.items():
        write_atomically(folder / name, content)


def _to_stderr(line: str) -> None:
    sys.stderr.write(line + "\n")


def main() -> int:
    """Build in place, if a source changed: `python -m runner.server.http.web.build.bundle`."""
    try:
        build_page(force="--force" in sys.argv[1:])
    except (PageBuildError, subprocess.SubprocessError) as error:
        _to_stderr(str(error))
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
