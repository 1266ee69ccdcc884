"""Make one module of what a script imports of its packages, by esbuild. No code of them runs, no other file goes in."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from sandboxes.cache import cache_dir, content, disk_errors, find_file, is_noexec, keep, private_dir
from sandboxes.deno.modules import CLOSED_MODULES, PURE
from sandboxes.errors import SandboxUnavailableError, UnsupportedConfigError
from sandboxes.models import PackageImport
from sandboxes.packages import tool_process
from sandboxes.packages.lock_text import Lock
from sandboxes.packages.locking import Say, work_folder
from sandboxes.packages.npm.installation import install_npm, key_of, native_error, native_of
from sandboxes.packages.npm.lock import read_npm_lock
from sandboxes.packages.npm.requirement import package_of
from sandboxes.packages.uv import timeout_error
from sandboxes.words.text import clean

BUNDLES = "bundles"

NAMESPACE = "$namespace"
"""The name by which a module has all that a package exports, as `import * as` gives it."""

MAX_BYTES = 32 << 20
"""Of what is bundled: it is loaded for each call or batch."""

_TOOL = Path(__file__).with_name("esbuild.json")
_SCHEMA = 1
_OUTSIDE = "evalcell-outside:"
_OPTIONS = (
    *("--bundle", "--format=cjs", "--platform=node", "--main-fields=module,main", "--target=es2022", "--charset=utf8"),
    *("--legal-comments=none", "--minify-syntax", "--minify-whitespace", "--log-level=error", "--log-limit=6"),
    *("--color=false", '--define:process.env.NODE_ENV="production"', "--define:global=globalThis"),
    *("--inject:./node/process.mjs", "--inject:./node/buffer-global.mjs", f"--external:{_OUTSIDE}*"),
    *("--metafile=meta.json", "--outfile=bundle.js"),
)
_WHOLE = """\
{imports}const own = {{ {own} }}, module = {{ exports: {{}} }};
(0, eval)({text})(module, module.exports, (name) => own[name]);
export const {{ {names} }} = module.exports;
"""
"""
The module of all packages. They are evaluated as a text, since Deno would parse a module anew for each Worker, which
takes it three times as long as the engine takes to run it: 70 ms of a core against 25 for zod.
"""

_NODE = Path(__file__).with_name("node")
"""What stands in for Node's own: its global names, and modules that no script has."""

_NO_EXPORT = re.compile(r'No matching export in "(?P<file>[^"]+)" for import "(?P<name>[^"]+)"')
_UNRESOLVED = re.compile(r'Could not resolve "(?P<name>[^"]+)"\s+(?P<place>\S+?):\d+:\d+')
_NATIVE = re.compile(r'No loader is configured for "(?P<suffix>[^"]+)" files: (?P<file>\S+)')
_USED = re.compile(rf'require\("{_OUTSIDE}(node:[\w/]+)"\)')
_OF = re.compile(r"(?:^|/)node_modules/((?:@[^/]+/)?[^/]+)")


async def bundle(
    imports: Sequence[PackageImport], lock: Lock, site: Path, *, say: Say, deadline: float
) -> tuple[str, ...]:
    """
    Return the modules of a script's packages: first all that is imported, then one for each import, in their order.

    Where a module imports another one of them, it has `evalcell-package:` and that one's place.

    Raises:
        UnsupportedConfigError: A package lacks what is imported, or needs what no script has.
        SandboxUnavailableError: The bundler cannot be fetched, or does not run.
    """
    folder = private_dir(private_dir(cache_dir()) / BUNDLES)
    wanted = [[one.specifier, sorted(one.names)] for one in imports]
    pinned = read_npm_lock(_TOOL.read_text("utf-8"), _TOOL.name)
    key = key_of("bundle", _SCHEMA, wanted, lock.digest, pinned.digest, _node(), list(_OPTIONS))
    if (known := _cached(folder, key)) is not None:
        return known
    try:
        with disk_errors(folder):
            async with work_folder(folder, key, say=say, deadline=deadline) as work:
                if (known := _cached(folder, key)) is not None:
                    return known
                tool = _program(await install_npm(pinned, say=say, deadline=deadline))
                start = time.monotonic()
                whole = await _run(imports, tool, work, site, deadline)
                found = (whole, *(_one(at, one) for at, one in enumerate(imports)))
                keep(folder, key, ".json", json.dumps(found).encode())
                size = f"{len(whole) / 1000:.0f} kB"
                say(
                    f"packages: {size} of code are what the script imports, bundled in {time.monotonic() - start:.1f} s"
                )
                return found
    except TimeoutError:
        raise timeout_error("bundling packages") from None


def _cached(folder: Path, key: str) -> tuple[str, ...] | None:
    path = find_file(folder, key, ".json")
    if path is None:
        return None
    try:
        return tuple(json.loads(content(path)))
    except (SandboxUnavailableError, ValueError):
        return None


def _node() -> list[str]:
    return [_WHOLE, *(path.read_text("utf-8") for path in sorted(_NODE.iterdir()))]


def _program(site: Path) -> Path:
    """The program of this machine. Raises SandboxUnavailableError."""
    places = [*site.glob("node_modules/@esbuild/*/bin/esbuild"), *site.glob("node_modules/@esbuild/*/esbuild.exe")]
    if not places:
        raise SandboxUnavailableError("packages: the bundler esbuild has no program for this machine; use another one")
    if is_noexec(places[0]):
        raise SandboxUnavailableError(
            f"packages: no program can be started from the disk of {places[0].parent}; set EVALCELL_CACHE_DIR to a "
            "folder on another one"
        )
    return places[0]


def _entry(imports: Sequence[PackageImport]) -> str:
    lines = []
    for at, one in enumerate(imports):
        named = package_of(one.specifier)
        place = json.dumps(named[2] if named else one.specifier)
        plain = [f"{json.dumps(name)} as {_export(at, name)}" for name in sorted(one.names) if name != NAMESPACE]
        lines.append(f"export {{ {', '.join(plain)} }} from {place};" if plain else f"import {place};")
        if NAMESPACE in one.names:
            lines.append(f"import * as n{at} from {place}; export {{ n{at} as {_export(at, NAMESPACE)} }};")
    return "\n".join(lines) + "\n"


def _one(at: int, one: PackageImport) -> str:
    """The module of one import."""
    names = ", ".join(
        f"{_export(at, name)} as {name if name == NAMESPACE else json.dumps(name)}" for name in sorted(one.names)
    )
    return f'export {{ {names} }} from "evalcell-package:0";\n'


def _export(at: int, name: str) -> str:
    return f"p{at}_{name.encode().hex()}"


def _write_node(folder: Path) -> list[str]:
    """Write what stands in for Node; the options that name it."""
    shutil.copytree(_NODE, folder)
    options = []
    for name in [*PURE.split(), *CLOSED_MODULES.split()]:
        file = name.replace("/", "+")
        if name in PURE.split():
            text = f'module.exports = require("{_OUTSIDE}node:{name}");\n'
        else:
            text = f'module.exports = require("./closed.cjs")("node:{name}");\n'
        if not (folder / f"{file}.cjs").exists():  # or one of our own
            (folder / f"{file}.cjs").write_text(text, "utf-8")
        options += [f"--alias:{scheme}{name}=./node/{file}.cjs" for scheme in ("", "node:")]
    return options


async def _run(imports: Sequence[PackageImport], tool: Path, work: Path, site: Path, deadline: float) -> str:
    (work / "node_modules").symlink_to(site / "node_modules", target_is_directory=True)
    (work / "entry.mjs").write_text(_entry(imports), "utf-8")
    options = [*_OPTIONS, *_write_node(work / "node")]
    # The names of modules of Node that a registry has, too, are packages where these are installed.
    own = {path.name for path in (site / "node_modules").iterdir()}
    options = [one for one in options if one.removeprefix("--alias:").partition("=")[0] not in own]
    done = await tool_process.run(
        [str(tool), "entry.mjs", *options],
        cwd=work,
        variables={"PATH": os.defpath, "HOME": str(work), "TMPDIR": str(work)},
        deadline=deadline,
        data=4 << 30,
        file_size=4 * MAX_BYTES,
    )
    if done.code != 0:
        raise _failure(done, site)
    _refuse_strangers(work, site)
    made = (work / "bundle.js").read_text("utf-8")
    if len(made) > MAX_BYTES:
        raise UnsupportedConfigError(
            f"packages: what the script imports is {len(made) >> 20} MB of code, and it is loaded again and again; "
            f"import less of it, by name: {MAX_BYTES >> 20} MB at most"
        )
    return _whole(made, imports)


def _whole(text: str, imports: Sequence[PackageImport]) -> str:
    used = sorted(set(_USED.findall(text)))
    return _WHOLE.format(
        imports="".join(f'import b{at} from "{name}";\n' for at, name in enumerate(used)),
        own=", ".join(f'"{_OUTSIDE}{name}": b{at}' for at, name in enumerate(used)),
        text=json.dumps(f"(function (module, exports, require) {{{text}\n}})\n//# sourceURL=packages.js"),
        names=", ".join(_export(at, name) for at, one in enumerate(imports) for name in sorted(one.names)),
    )


def _refuse_strangers(work: Path, site: Path) -> None:
    """Raise UnsupportedConfigError if a file went in that is none of the packages': a package may name any."""
    inside = (os.path.realpath(site), os.path.realpath(work))
    for name in json.loads((work / "meta.json").read_text("utf-8"))["inputs"]:
        path = os.path.realpath(work / name.partition("?")[0])
        if not name.startswith("(disabled):") and not path.startswith(tuple(f"{one}{os.sep}" for one in inside)):
            raise UnsupportedConfigError(
                f"packages: one of them takes in {clean(path, 200)}, which is no file of a package; nothing is run; "
                "use another package"
            )


def _failure(result: tool_process.ToolResult, site: Path) -> Exception:
    said = result.errors
    if (found := _NO_EXPORT.search(said)) and "entry.mjs" in said:
        of = _OF.findall(found["file"])
        name = of[-1] if of else found["file"]
        return UnsupportedConfigError(
            f"packages: {clean(name, 100)} exports no {clean(found['name'], 100)!r}; import a name that it has"
        )
    if found := _NATIVE.search(said):
        of = _OF.findall(found["file"])
        return native_error(clean(of[-1] if of else found["file"], 100), found["file"].rpartition("/")[2])
    if found := _UNRESOLVED.search(said):
        name, of = clean(found["name"], 100), _OF.findall(found["place"])
        if not of:
            declared = package_of(found["name"])
            if declared and (file := native_of(site, declared[0])):
                return native_error(declared[0], file)
            return UnsupportedConfigError(
                f"packages: nothing can be imported from {name!r}; look at what the package has"
            )
        return UnsupportedConfigError(
            f"packages: {clean(of[-1], 100)} imports {name!r}, which is none of its dependencies; declare it, too, as "
            f"'npm:{name}', or use another package"
        )
    words = re.sub(r"\s+", " ", re.sub(r"\S*node_modules/", "", said)).removeprefix("✘ [ERROR] ")
    if result.code < 0:
        words = f"it was ended by signal {-result.code}, as by a lack of memory"
    return UnsupportedConfigError(f"packages: they cannot be bundled: {clean(words.strip(), 300)}; use another package")
