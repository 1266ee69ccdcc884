"""
The next step for what scripts try and a sandbox has not: one table.

An error is known by its class and text, and, where these say too little, by its traceback. All of it may be the
script's own words, so a step does no harm if it is wrong. `next_step` alone reads the table; backends say by a `Place`
what they have.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Literal, NamedTuple

from sandboxes.models import Language
from sandboxes.words.wording import Message, Setting

PROCESS = Message("choose ", Setting("sandbox.backend", "process"))
_FILES, _NETWORK = Setting("sandbox.files"), Setting("sandbox.network", True)


class Place(NamedTuple):
    """Where a script ran, as far as the next step depends on it."""

    kind: Literal["wasm", "box", "deno"] = "box"
    """`box`: native Python, here or on a provider's machine."""
    network: bool = False
    env: tuple[str, ...] = ()
    """The names of the caller's variables that it has."""


WASM, BOX = Place("wasm"), Place()


def place_of(language: Language, network: bool, env: Iterable[str]) -> Place:
    """Return the place of a script in a process, here or on a provider's machine."""
    return Place("deno") if language == "typescript" else Place("box", network, tuple(env))


class Failure(NamedTuple):
    """An error as the guest reported it."""

    type: str
    message: str
    traceback: str = ""
    missing: str | None = None
    """The module that was not found."""


Step = str | Message | Callable[[re.Match[str], Failure, Place], str | None]


class _Row(NamedTuple):
    places: str
    """Kinds of places, separated by blanks."""
    error: str
    """What `Class: text` begins with, as a regular expression."""
    step: Step
    frames: str = ""
    """What the traceback has in it, as a regular expression."""


def next_step(failure: Failure, place: Place) -> str | None:
    """Return the next step for a script's error, if there is one that is sure to help."""
    if failure.missing is not None:
        return module_step(failure.missing, place)
    text = f"{failure.type}: {failure.message}"
    for row, error, frames in _patterns():
        if place.kind not in row.places or (match := error.match(text)) is None:
            continue
        if row.frames and not frames.search(failure.traceback):
            continue
        step = row.step(match, failure, place) if callable(row.step) else row.step
        if step is not None:
            return str(step)
    return None


# Modules


def module_step(module: str, place: Place = BOX) -> str | None:
    """Return the next step for a module that was not found."""
    from sandboxes.packages import is_own_file, is_unknown, which_package  # here: only a failed import needs it

    top, _, rest = module.partition(".")
    if top == "evaluator_folder":
        return one_file(f"there is no `{rest}` in the script's folder")
    if is_own_file(module):
        return one_file(f"`{module}` is a file of your own rather than a package")
    if top in _OF_WINDOWS:
        return f"`{top}` is there on Windows alone, and sandboxes run no Windows; do without it"
    if top in _NO_SCREEN:
        return _SCREEN
    if (since := _REMOVED.get(top)) and (place.kind == "wasm" or sys.version_info >= since):
        name = f"{since[0]}.{since[1]}"
        older = f", or {PROCESS}, whose Python is {sys.version_info[0]}.{sys.version_info[1]}"
        instead = f" `{_INSTEAD[top]}` has what is needed of it" if top in _INSTEAD else " write it without"
        return f"Python {name} took `{top}` out of its library:{instead}{older * (sys.version_info < since)}"
    if package := which_package(module):
        step = declare([package])
        return f"{step}; the process sandbox has packages" if place.kind == "wasm" else step
    if is_unknown(module) or (top.startswith("_") and top not in sys.stdlib_module_names):
        return unknown([top])
    if place.kind == "wasm":
        return f"the wasm sandbox has no modules that need an operating system or a C library; {PROCESS}"
    return None


def unknown(modules: Sequence[str]) -> str:
    """
    Return the next step for modules that may be files as well as packages: a registry's of their names are strangers'.
    """
    names = ", ".join(f"`{name}`" for name in modules)
    return (
        f"evalcell knows no package that brings {names}: if a file of yours is meant, put it into the script's "
        f"folder; if a package is, declare its name: {Setting('sandbox.packages', ['NAME'])} "
        f"(a guess: {names})"
    )


def declare(packages: Sequence[str]) -> str:
    """Return the next step for packages that are to be installed."""
    names = json.dumps([*packages], ensure_ascii=False)
    large = next((f"; {one} brings {LARGE[one]}" for one in packages if one in LARGE), "")
    copy = f"{large}: rather copy what the script uses of it into the script" if large else ""
    return (
        f"add `dependencies = {names}` to the script's header, or give {Setting('sandbox.packages', [*packages])}{copy}"
    )


_TORCH = "torch, which is some GB"
LARGE = {"verl": "6 GB and more", "vllm": "6 GB and more", "torch": "some GB"} | dict.fromkeys(
    ("accelerate", "bert-score", "deepspeed", "sentence-transformers", "torchmetrics", "torchvision", "trl"), _TORCH
)
"""Packages that are hardly worth to be installed for a function or two of theirs, and what they bring."""


def one_file(why: str) -> str:
    """Return the next step for a script that imports a file which is not there."""
    return f"{why}: put it into the script's folder, whose modules go with the script, or copy what is needed into it"


_OF_WINDOWS = frozenset(("winreg", "_winreg", "msvcrt", "winsound", "_winapi", "nt", "_overlapped", "msilib"))
_NO_SCREEN = frozenset(("tkinter", "_tkinter", "turtle", "curses", "_curses", "idlelib"))
_SCREEN = "a sandbox has no screen, no terminal and no keyboard; do without it"
_REMOVED = dict.fromkeys(("asynchat", "asyncore", "distutils", "imp", "smtpd"), (3, 12)) | dict.fromkeys(
    (
        *("aifc", "audioop", "cgi", "cgitb", "chunk", "crypt", "imghdr", "lib2to3", "mailcap", "nis", "nntplib"),
        *("ossaudiodev", "pipes", "sndhdr", "spwd", "sunau", "telnetlib", "uu", "xdrlib"),
    ),
    (3, 13),
)
_INSTEAD = {"imp": "importlib", "pipes": "shlex", "cgi": "urllib.parse", "uu": "base64"}


# Files, variables and the like

_SECRET = r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_(?:KEY|TOKEN|SECRET|PASSWORD)"
_OF_SERVICE = re.compile(r"_(API_KEY|KEY|TOKEN|ENDPOINT|BASE_URL|API_BASE|HOST)$")
"""Variables by which a script calls a service, such as a model."""
_NAME = r"\b(?P<name>[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)\b"
_ENVIRONMENT = r"\b(?:[Ee]nv(?:ironment)?|ENV)\b"
_SAYS_VARIABLE = (
    rf"\w+: (?:.*?{_NAME}[^.\n]{{0,60}}?{_ENVIRONMENT}|"
    rf".*?{_ENVIRONMENT}[^.\n]{{0,60}}?{_NAME.replace('name', 'other')})"
)
"""An error whose text says that an environment variable is not set, before its name or after it."""
_WRITING = (
    r"""(?:,\s*|\bmode=)["'][wax]b?t?\+?["']|"""
    r"""\b(?:FileHandler|makedirs|mkdir|touch|write_\w+|to_(?:csv|json)|save\w*)\("""
)
_ROOTS = {"home", "Users", "root", "mnt", "data", "opt", "srv", "var", "usr", "etc", "media", "content", "kaggle"}
_ROOTS |= {"workspace", "Volumes"}
_MOST = 80  # characters of a path that a step repeats


def _file(match: re.Match[str], failure: Failure, place: Place) -> str | None:
    path = match["path"]
    ours = f"{PROCESS} with " if place.kind == "wasm" else "name it: "
    if path.startswith(("/proc", "/sys")):
        return "a script sees nothing of the machine it runs on; do without it"
    if path in ("/dev/null", "nul"):
        return f"write into io.StringIO() instead, or {PROCESS}"
    if path.startswith(("/tmp/", "/var/tmp/")) or path == "/tmp" or re.search(_WRITING, failure.traceback):
        return str(_WRITE[place.kind])
    if len(path) > _MOST or "'" in path or not path.rstrip("/.") or path.endswith("/"):
        return f"a script sees no folders of yours; {ours}each file that it reads: {_FILES}"
    name, header = _variable_of(path), ""
    if path.startswith("/") and path.split("/")[1] not in _ROOTS:  # made of `__file__`, which says nothing of yours
        path = f"PATH/{path.rpartition('/')[2]}"
    if not path.startswith(("/", "..")):
        beside = path.removeprefix("PATH/").removeprefix("./")
        header = f'; text beside the script goes with it if its header says so: files = ["{beside}"]'
    return (
        f"a script sees none of your files; {ours}{Setting('sandbox.files', {name: path})}, "
        f'and open os.environ["{name}"]{header}'
    )


_WRITE: dict[str, str | Message] = {
    "wasm": Message(
        "the wasm sandbox has no files: keep it in memory, as in io.StringIO() or io.BytesIO(), or ",
        PROCESS,
        ", which has a /tmp",
    ),
    "box": "a script writes below /tmp alone, as by `tempfile`, if the sandbox has one, and nothing of it is kept; "
    "return what shall be kept",
}


def _above(match: re.Match[str], failure: Failure, place: Place) -> str:
    """For a path that is made of `__file__`: the line names the file that is meant, or a folder for what follows."""
    lines = [line for line in failure.traceback.splitlines() if _OF_FILE.search(line) and 'File "' not in line]
    named = _FILE_NAME.findall(lines[-1]) if lines else []
    name = _variable_of(named[-1]) if named else "NAME"
    path = f"PATH/{named[-1].rpartition('/')[2]}" if named else "PATH"
    where = "in place of that path" if named else "in place of its path, for each file that it reads"
    ours = f"{PROCESS} with " if place.kind == "wasm" else "give "
    return (
        f"{_ABOVE}; for a file that it reads {ours}{Setting('sandbox.files', {name: path})}, and write "
        f'`Path(os.environ["{name}"])` {where}'
    )


def _variable_of(path: str) -> str:
    """The name of a variable for a file, as `sandbox.files` has it."""
    stem = path.replace("\\", "/").rstrip("/").rpartition("/")[2].partition(".")[0]
    name = re.sub(r"\W+", "_", stem).strip("_").upper()
    return name if name and name.isascii() and not name[0].isdigit() else "DATA"


_OF_FILE = re.compile(r"__file__|\.parents?\b")
_FILE_NAME = re.compile(r"""["']([^"'\n]{0,200}[\w-]\.[A-Za-z][A-Za-z0-9]{0,9})["']""")


def _variable(match: re.Match[str], failure: Failure, place: Place) -> str | None:
    return _named_variable(match["name"] or match["other"], place)


def _key(match: re.Match[str], failure: Failure, place: Place) -> str | None:
    """For a client of a model that has no key, and names no variable: its package tells, or its words."""
    if any(_OF_SERVICE.search(one) for one in place.env):
        return None
    for text in (" ".join(_FRAME.findall(failure.traceback)), failure.message, failure.traceback):
        for name, words in _KEYS.items():
            if re.search(rf"(?<![a-zA-Z])(?:{words})", text):
                return _named_variable(name, place)
    return _named_variable("NAME", place, calls=True)


_KEYS = {  # litellm calls any of them, and is none
    "ANTHROPIC_API_KEY": "anthropic|Anthropic|auth_token",
    "GEMINI_API_KEY": "genai|generativeai|aistudio|Gemini|key inputs",
    "MISTRAL_API_KEY": "mistralai|Mistral",
    "CO_API_KEY": "cohere/|Cohere",
    "GROQ_API_KEY": "groq/|Groq",
    "TOGETHER_API_KEY": "together/|Together",
    "OPENAI_API_KEY": r"openai/|OpenAI|openai\.|admin_api_key",
}
"""By the variable that has a service's key: what stands in frames of its package, or in messages."""
CLIENTS = frozenset(
    ("OpenAI", "AsyncOpenAI", "AzureOpenAI", "AsyncAzureOpenAI", "ChatOpenAI", "AzureChatOpenAI", "Anthropic")
) | {"AsyncAnthropic", "ChatAnthropic", "Groq", "Together", "Mistral", "InferenceClient", "GenerativeModel"}
"""Classes by which a script calls a model."""
_NO_KEY = (
    r"(?:\w+: .*?(?:Could not resolve authentication method|No API[- ]?[Kk]ey (?:was |is )?(?:provided|found|set)"
    r"|Missing key inputs argument|Missing (?:\w+ )?API[- ]?[Kk]ey|[Aa][Pp][Ii][_ -]?[Kk]ey (?:is |was )?"
    r"(?:missing|required|not (?:set|found|provided))|(?:[Ss]tatus(?:_code)?:? |Error code: )401"
    r"|401 (?:Client Error: )?Unauthorized|[Ii]nvalid [Aa][Pp][Ii] [Kk]ey|[Ii]ncorrect API key)"
    r"|(?:\w+\.)*AuthenticationError\b)"
)


def _named_variable(name: str, place: Place, calls: bool = False) -> str | None:
    """The next step for a variable that is not there; it is one by which a script calls a service if that is known."""
    if name in place.env:
        return None
    if judge := re.fullmatch(r"(OPENAI|ANTHROPIC)_(?:BASE_URL|API_BASE)", name):
        return f"it is set where a judge is granted: {Setting('judges.judge', [judge[1].lower()])}"
    if name in ("HOME", "USER", "LOGNAME", "TMPDIR", "PWD"):
        return f"{PROCESS}, which has HOME and USER, or do without it" if place.kind == "wasm" else None
    also = f" and {_NETWORK}, for what it calls with that" * (
        not place.network and (calls or _OF_SERVICE.search(name) is not None)
    )
    if place.kind == "wasm":
        return f"a script sees none of your variables; {PROCESS} with {Setting('sandbox.env', [name])}{also}"
    if place.kind == "deno":
        return f"a TypeScript script sees no variables: make `{name}` a parameter of its function, with a default"
    return f"a script sees none of your variables; name it: {Setting('sandbox.env', [name])}{also}"


def _none_of_yours(match: re.Match[str], failure: Failure, place: Place) -> str | None:
    if place.env:
        return None
    ours = f"{PROCESS} with" if place.kind == "wasm" else "name each:"
    return f"a script sees none of your variables; {ours} {Setting('sandbox.env')}"


def _no_network(match: re.Match[str], failure: Failure, place: Place) -> str | None:
    if place.network:
        return None
    if place.kind == "wasm":
        return f"the wasm sandbox has no network; {PROCESS} with {_NETWORK}"
    if place.kind == "deno":
        return "a TypeScript script has no network: put what it needs into a column, or write it in Python"
    return f"a script has no network unless {_NETWORK} opens it"


def _nltk(match: re.Match[str], failure: Failure, place: Place) -> str | None:
    """Its data is a folder of files, which it looks for or downloads."""
    if place.network:
        return None
    data = next(iter(re.findall(r"nltk\.download\('([\w.-]{1,60})'\)", failure.message)), "NAME")
    return (
        f"nltk wants to download `{data}`; do this once: `python -m nltk.downloader -d nltk_data_mine {data}`, "
        f"and give it as a wheel, as docs/how-to/package-data.md shows; or {_NETWORK} lets the script download it: "
        "nltk.download(…)"
    )


def _download(match: re.Match[str], failure: Failure, place: Place) -> str | None:
    """What Hugging Face's packages say of a metric, data set or model that they look for here and cannot download."""
    step = _no_network(match, failure, place)
    return None if step is None else f"it is downloaded when the script asks for it, and {step}"


def _other_rouge(match: re.Match[str], failure: Failure, place: Place) -> str | None:
    return (
        f"py-rouge is meant, whose module has the name of the one of `rouge`, which is installed; {declare(PY_ROUGE)}"
    )


def _zone(match: re.Match[str], failure: Failure, place: Place) -> str | None:
    """Only for a zone that there is: a typo is the script's."""
    known = _zones()
    if place.kind == "wasm":
        if known and match["key"] not in known:
            return None
        return f"the wasm sandbox knows no time zones but datetime.timezone.utc; {PROCESS}"
    return None if known else declare(["tzdata"])


@cache  # it looks into each file of them, for 10 ms or more, and every row may ask
def _zones() -> set[str]:
    import zoneinfo

    return zoneinfo.available_timezones()


def _of_system(match: re.Match[str], failure: Failure, place: Place) -> str | None:
    """For a name of a module that the machine's own Python has, and the one in the Wasm sandbox has not."""
    module, name = match["module"], match["name"]
    if module in ("os", "posix") and name.startswith(("exec", "spawn", "posix_spawn", "system", "startfile")):
        return _PROGRAMS
    if name in ("getlogin", "get_terminal_size", "ttyname"):
        return "a sandbox has no terminal; do without it"
    if module == "signal" and name in ("alarm", "setitimer"):
        limit = Setting("limits.timeout")
        return f"the wasm sandbox has no signals; leave the limit to {limit}, which each call has, or {PROCESS}"
    if module == "http.client":
        return _no_network(match, failure, place)
    if not hasattr(importlib.import_module(module), name):
        return None
    return f"the wasm sandbox has no operating system, and so no `{module}.{name}`; {PROCESS}"


_PROGRAMS = (
    "no sandbox starts programs: compute it in Python; packages are declared in the script's header (`dependencies`), "
    "and a program that a row brings is run by the template code-tests"
)
_MACHINE = (
    "a script sees no programs of this machine and starts none, such as Java for pyserini, pyjnius or pyspark: compute "
    "it in Python, or put what the program gives into a column"
)
_OF_PROGRAMS = (
    r"(?:(?:\w+\.)?(?:Exception|\w*Error|\w*Exception\w*): .*?(?:[Uu]nable to find javac?\b|\bJAVA_HOME\b|\blibjvm\b|"
    r"\bJVM\b[^.]{0,40}not found|\b[Jj]ava\b[^.]{0,60}\bnot (?:found|installed)|Java gateway process exited|"
    r"executables? (?:is|are) (?:not )?(?:on|in) your (?:system'?s? )?PATH|not installed or it's not in your PATH)"
    r"|KeyError: 'JAVA_HOME'|JVMNotFoundException\b|TesseractNotFoundError\b|ExecutableNotFound\b"
    r"|FileNotFoundError: \[Errno \d+\] [^:]*: b?'(?:java|javac|git|node|npx|perl|bash|sh|gcc|g\+\+|make|latex|"
    r"pdflatex|dot|ffmpeg|tesseract|docker|go|cargo|rustc|R|Rscript)'$)"
)
_BY_OS = r"\bos\.(?:exec|posix_spawn)|<frozen os>"
_NOT_SHARED = "memory is not shared here: mmap.mmap(-1, n, flags=mmap.MAP_PRIVATE)"
_LOCALE = "the sandbox has the locale C.UTF-8 alone; write the format out"
_BESIDE = one_file("a relative import means a file beside the script")
_FRAME = re.compile(r'File "([^"]+)"')


def _relative(match: re.Match[str], failure: Failure, place: Place) -> str:
    """For a file of the script's own, or for an installed package that has the import."""
    if not (inside := _inside(failure)):
        return _BESIDE
    package = inside.partition("/")[0].removesuffix(".py")
    return (
        f"that import is in the installed package `{package}`, and not in the script: this version of it does not work "
        f"as packages are installed here, from wheels alone; declare another one: "
        f"{Setting('sandbox.packages', [f'{package}==VERSION'])}"
    )


def _inside(failure: Failure) -> str:
    """The part of the last frame's path below an installed package's folder; empty for the script's own."""
    frames = _FRAME.findall(failure.traceback)
    return (re.split(r"/(?:packages|site|site-packages)/", frames[-1] if frames else "")[1:] or [""])[-1]


def _at(failure: Failure, attribute: str) -> str:
    """The name of what the script asks for an attribute in the line that fails; else `a value`."""
    lines = [line for line in failure.traceback.splitlines() if line[:1] == " " and 'File "' not in line]
    named = re.findall(rf"\b([A-Za-z_][\w.]{{0,{_MOST}}})\.{attribute}\b", "\n".join(lines))
    return f"`{named[-1]}`" if named else "a value"


def _of_path(match: re.Match[str], failure: Failure, place: Place) -> str | None:
    if _inside(failure):
        return None
    what = _at(failure, match["name"]) if "name" in match.re.groupindex else "a value"
    ours = f"{PROCESS}, and " if place.kind == "wasm" else ""
    return (
        f"{what} is a text where the script reads a pathlib.Path, and a row holds text; a script sees no files of "
        f"yours: {ours}give each with {Setting('sandbox.files', {'NAME': 'PATH'})}, or put what they hold into a column"
    )


_OF_PATHS = (
    "absolute|as_posix|as_uri|exists|expanduser|glob|is_absolute|is_dir|is_file|is_symlink|iterdir|joinpath|mkdir|open|"
    "parent|parents|read_bytes|read_text|relative_to|resolve|rglob|samefile|stat|stem|suffix|suffixes|touch|unlink|"
    "with_name|with_stem|with_suffix|write_bytes|write_text"
)


def _of_messages(match: re.Match[str], failure: Failure, place: Place) -> str | None:
    if _inside(failure):
        return None
    return (
        "a text stands where the script reads a conversation: it needs a list of messages, such as "
        '`[{"role": "assistant", "content": "…"}]`; write the column so, or, if it holds the JSON of such a list, give '
        f"{Setting('json_columns')}"
    )


def _of_dict(match: re.Match[str], failure: Failure, place: Place) -> str | None:
    name = match.groupdict().get("name", "lower")
    if name in ("has_key", "iteritems", "itervalues", "iterkeys") or _inside(failure):
        return None
    if hasattr(str, name):
        return (
            "an object stands where the script works with a text: give it the text that is in it by "
            f"{Setting('mapping.paths', {'PARAMETER': '$.metadata.COLUMN.KEY'})}, or, of a list of objects, "
            "`COLUMN[0].KEY`"
        )
    return (
        f'an object of a row is a dict, which has no attributes: read `["{name}"]` of it, or make it one that has, as '
        "by `types.SimpleNamespace(**value)`"
    )


def _of_text(match: re.Match[str], failure: Failure, place: Place) -> str | None:
    if _inside(failure):
        return None
    return (
        "a text stands where the script reads an object: read it by json.loads in the script, or, if it is a column "
        f"that holds JSON, give {Setting('json_columns')}; another column may be meant as well"
    )


def _of_list(match: re.Match[str], failure: Failure, place: Place) -> str | None:
    if _inside(failure):
        return None
    return (
        "a list stands where the script works with a text: if its parts are answers that all count, take the best of "
        "them in the script, as by `max(FUNCTION(output, one) for one in reference)`; for the first one alone give "
        f"{Setting('mapping.paths', {'PARAMETER': '$.metadata.COLUMN[0]'})}"
    )


_NO_TEXT_INDEX = r"TypeError: string indices must be integers"
_ASKS_MESSAGE = (
    r"""\[-?\d\](?:\[|\.get\()["'](?:content|role)["']|\b(?:m|msg|message|turn)(?:\[|\.get\()["'](?:content|role)["']"""
)

_PYTHON_2 = (
    "this is Python 2's: the script runs in Python 3, where `range`, `str`, `int`, `input`, `zip` take its place"
)
_ABOVE = (
    "a script runs in a folder of its own, with nothing above it or beside it: copy what it imports from there into it"
)
_PROCESSES = (
    "a script sees no processes and no machine, which psutil reads: do without it, and without a package that asks it "
    "when it is imported"
)
_SQLITE = Message('sqlite3.connect(":memory:") needs no file; one of yours is given by ', _FILES)
_DEBUGGER = "a debugger has no terminal in a sandbox: print instead"
_ARGUMENTS = "a script has no command line: make its options parameters of its function, with defaults"
_EXIT = "return a result, or raise an error, in place of sys.exit"
_NO_FILE = re.compile(r"(?:No such file or directory|Permission denied): b?'(?P<path>[^']*)'")


def _exit(match: re.Match[str], failure: Failure, place: Place) -> str:
    """A script that ends itself where a file is not there, in `except FileNotFoundError`, says nothing of the file."""
    lacks = [*_NO_FILE.finditer(failure.traceback)]
    step = _file(lacks[-1], failure, place) if lacks else None
    return _EXIT if step is None else f"it ends there, as `{lacks[-1]['path'][-_MOST:]}` is not there; {step}"


_OF_DENO = "of `Deno` there are exit, stdout, stderr, version, build, inspect and errors"
_REQUIRE = 'a script is a module: write import … from "node:…" in place of require'
_EXPORT = "a script is a module: write `export` before the function"
_NODE_PROCESS = "`process` of Node is not there: make variables and options parameters of its function"
_INPUT = (
    "nobody types in a sandbox: what the script asks for is a column, or a parameter of its function with a default"
)
_THREADS = Message("the wasm sandbox starts no threads; ", PROCESS, ", or call the function without one")
_FORKS = (
    "`multiprocessing` works by fork alone here, without Manager and shared_memory: "
    'multiprocessing.get_context("fork").Pool(…), or ProcessPoolExecutor(mp_context=…), or threads'
)
_OF_FORKS = r"multiprocessing/(?:managers|forkserver|shared_memory|resource_tracker|popen_\w+)\.py"
_OF_LOCKS = r"multiprocessing/(?:synchronize|heap)\.py"
_NO_LOCKS = "only tier A has what locks between processes need; use threads, as by concurrent.futures"
_NO_TMP = "this tier of the sandbox has no folder to write to: keep it in memory, as in io.StringIO() or io.BytesIO()"
_MANY = "a call has 48 processes and threads at most, and where the machine cannot count them no processes; start fewer"
_NO_FILES = (
    "a TypeScript script reads and writes no files: import text or JSON that lies beside it, "
    'import text from "./words.txt", or put it into a column'
)
_DENO_FILES = (
    "read|write|open|make|stat|lstat|remove|copy|mkdir|rename|truncate|create|realPath|chdir|symlink|link|watchFs"
)
_ALONE = "a TypeScript script starts no programs, servers or Workers; compute it in the function"
_KEPT = "nothing is kept from call to call: use a Map in the script"

_NETWORK_ERRORS = (
    r"(?:ConnectError|ConnectTimeout|NewConnectionError|MaxRetryError|APIConnectionError|ClientConnector\w*Error"
    r"|EndpointConnectionError|ConnectionError|ProxyError|SSLError|ServiceUnavailable|LocalEntryNotFoundError"
    r"|OfflineModeIsEnabled|ServerSelectionTimeoutError|gaierror|herror|URLError)\b"
)

PY_ROUGE = ("py-rouge", "nltk", "setuptools<81")
"""py-rouge, and what it needs and does not declare."""
_OF_HUB = (
    r"(?:FileNotFoundError|DatasetNotFoundError|OSError|EnvironmentError|ValueError|ConnectionError|RuntimeError): "
    r".*?(?:exist on the (?:Hugging Face )?Hub|Couldn't (?:find|reach) (?:a|any|the)? ?[^.]{0,60}"
    r"(?:script|data ?file|on the Hub|directory)|We couldn't connect to|is not a valid model identifier|"
    r"Can't load (?:tokenizer|the (?:model|configuration)|config|feature extractor|image processor)|"
    r"outgoing traffic has been disabled|cannot find the requested files in the (?:disk|local) cache)"
)
"""What cannot be downloaded, in the words of Hugging Face's packages."""

_ROWS = (
    _Row("wasm box", _OF_PROGRAMS, _MACHINE),
    # The standard library of Python, in WebAssembly.
    _Row("wasm", r"RuntimeError: can't start new thread", _THREADS),
    _Row("wasm", r"OSError: \[Errno 58\] wasi does not support processes", _PROGRAMS),
    _Row("wasm", r"NameError: name '(?:exec|spawn|_?fork)\w*' is not defined", _PROGRAMS, r"<frozen os>"),
    _Row("wasm", r"NotImplementedError", _PROGRAMS, r"\b_?(?:make_)?subprocess_(?:exec|shell|transport)\b"),
    _Row(
        "wasm",
        r"AttributeError: module '(?P<module>os|posix|signal|time|select|socket|http\.client)' has no attribute "
        r"'(?P<name>\w+)'",
        _of_system,
    ),
    _Row("wasm", r".*\[Errno 63\] this sandbox has no network", _no_network),
    _Row("wasm", r".*\bunknown url type: (?:https|ftps)\b", _no_network),
    _Row(
        "wasm",
        r"UnsupportedOperation: fileno",
        Message("the streams have no descriptors in the wasm sandbox; ", PROCESS),
    ),
    _Row(
        "wasm", r"RuntimeError: Could not determine home directory", Message("the wasm sandbox has no home; ", PROCESS)
    ),
    _Row("wasm", r"OSError: No username set in the environment", Message("the wasm sandbox has no users; ", PROCESS)),
    # Native Python in a box.
    _Row("box", r"(?:FileNotFoundError|OSError|PermissionError: \[Errno 13\])", _NO_LOCKS, _OF_LOCKS),
    _Row("box", r"(?:EOFError|PermissionError|FileNotFoundError|OSError|BrokenPipeError)\b", _FORKS, _OF_FORKS),
    _Row("box", r"PermissionError: \[Errno 1\] this sandbox starts no programs", _PROGRAMS),
    _Row("box", r"PermissionError: \[Errno 1\] .*", _NOT_SHARED, r"mmap\("),
    _Row("box", r"PermissionError: \[Errno 1\] Operation not permitted", _PROGRAMS, _BY_OS),
    _Row("box", r"(?:RuntimeError: can't start new thread|BlockingIOError: \[Errno 11\])", _MANY),
    _Row("box", r"OSError: \[Errno 30\]", _WRITE["box"]),
    _Row("box", r"PermissionError: \[Errno 13\] [^:]*: b?'(?P<path>[^']*)'", _file),
    _Row("box", r"PermissionError: \[Errno 13\] Permission denied$", _no_network),
    _Row("box", r".*\[Errno (?:13\] Permission denied|-[235]\] (?:Temporary|Name or|No address))", _no_network),
    _Row("box", r"KeyError: 'getpwuid\(\): uid not found", 'there is no list of users: take os.environ["USER"]'),
    _Row("box", r"OSError: \[Errno 25\]", _SCREEN),
    _Row("box", r"ImportError: lib(?:n?curses|tk|tcl|X11|GL|gtk|Qt)\S*\.so", _SCREEN),
    _Row("wasm box", r"(?:\w+\.)?Error: unsupported locale setting", _LOCALE),
    # Python in both.
    _Row("wasm box", r"ImportError: attempted relative import", _relative),
    _Row("box", r"TypeError: (?:Rouge\.)?__init__\(\) got an unexpected keyword argument 'max_n'", _other_rouge),
    _Row("wasm box", _OF_HUB, _download),
    _Row("wasm", r"FileNotFoundError: \[Errno 44\] No usable temporary directory", _WRITE["wasm"]),
    _Row("box", r"FileNotFoundError: \[Errno 2\] No usable temporary directory", _NO_TMP),
    _Row(
        "wasm box",
        r"(?:FileNotFoundError|NotADirectoryError|OSError): .*?No such file or directory: b?'(?P<path>[^']*)'",
        _file,
    ),
    _Row("wasm box", r"IndexError: (?:-?\d+$|list index)", _above, r"__file__|\.parents\["),
    _Row("wasm box", r"StopIteration$|StopIteration: $", _above, r"next\(.*\.parents\b"),
    _Row("box", r"(?:psutil\.)?(?:NoSuchProcess|AccessDenied|ZombieProcess)\b", _PROCESSES),
    _Row("wasm box", r"OperationalError: unable to open database file", _SQLITE),
    _Row("wasm box", r"ZoneInfoNotFoundError: ['\"]No time zone found with key (?P<key>[\w/+-]+)", _zone),
    _Row("wasm box", r"KeyError: '(?P<name>\w+)'", _variable, r"<frozen os>|[/\\]os\.py"),
    _Row("wasm box", r"(?:TypeError|AttributeError): .*'?NoneType'?", _none_of_yours, r"\b(?:getenv|environ\.get)\("),
    _Row("wasm box", r"\w+: .*?\b(?P<name>" + _SECRET + r")\b", _variable),
    _Row("wasm box", _SAYS_VARIABLE, _variable),
    _Row("wasm box", _NO_KEY, _key),
    _Row("wasm box", r"EOFError\b", _INPUT, r"\binput\(|getpass"),
    _Row("wasm box", r"AttributeError: '_io\.StringIO' object has no attribute 'buffer'", _INPUT, r"stdin\.buffer"),
    _Row("wasm box", r"(?:BdbQuit|SystemExit)\b", _DEBUGGER, r"\bpdb\.py|\bbdb\.py"),
    _Row("wasm box", r"SystemExit: 2", _ARGUMENTS, r"argparse|click"),
    _Row("wasm box", r"IndexError: list index out of range", _ARGUMENTS, r"\bsys\.argv\["),
    _Row("wasm box", r"(?:SystemExit\b|NameError: name '(?:quit|exit)' is not)", _exit),
    _Row("wasm box", _NETWORK_ERRORS, _no_network),
    _Row("wasm box", r"AttributeError: 'dict' object has no attribute '(?P<name>\w+)'", _of_dict),
    _Row("wasm box", rf"AttributeError: 'str' object has no attribute '(?P<name>{_OF_PATHS})'", _of_path),
    _Row("wasm box", r"TypeError: unsupported operand type\(s\) for /: 'str' and 'str'", _of_path, r"/\s*[fr]*[\"']"),
    _Row("wasm box", _NO_TEXT_INDEX, _of_messages, _ASKS_MESSAGE),
    _Row("wasm box", r"AttributeError: 'str' object has no attribute 'get'", _of_messages, _ASKS_MESSAGE),
    _Row("wasm box", r"AttributeError: 'str' object has no attribute '(?:get|items|keys|values)'", _of_text),
    _Row("wasm box", _NO_TEXT_INDEX, _of_text),
    _Row(
        "wasm box",
        r"AttributeError: 'list' object has no attribute '(?:lower|upper|casefold|r?split|[lr]?strip|replace|title|"
        r"startswith|endswith|encode|translate|find|partition|splitlines)'",
        _of_list,
    ),
    _Row("wasm box", r"TypeError: expected string or bytes-like object, got 'list'", _of_list),
    _Row("wasm box", r"TypeError: expected string or bytes-like object, got 'dict'", _of_dict),
    _Row(
        "wasm box",
        r"NameError: name '(?:xrange|unicode|basestring|raw_input|long|unichr|execfile|izip)' is not",
        _PYTHON_2,
    ),
    _Row("wasm box", r"LookupError: [\s*]*Resource ", _nltk),
    # JavaScript and TypeScript.
    _Row("deno", r"TypeError: Fetch failed|NotCapable: Requires net access", _no_network),
    _Row(
        "deno",
        r"TypeError: Invalid URL: '\S*' with base '(?:blob:|evaluator)|NotCapable: Requires (?:read|write) access",
        _NO_FILES,
    ),
    _Row("deno", rf"TypeError: Deno\.(?:{_DENO_FILES})\w* is not a", _NO_FILES),
    _Row("deno", r"TypeError: Deno\.(?:connect|resolveDns|startTls)\w* is not a", _no_network),
    _Row("deno", r"TypeError: Deno\.(?:Command|run|serve|listen|kill|spawn)\w* is not a", _ALONE),
    _Row("deno", r"TypeError: Deno\.\w+ is not a", _OF_DENO),
    _Row("deno", r"\w+: (?:\S*\b)?(?:Worker|SharedWorker|BroadcastChannel|postMessage|importScripts) is not ", _ALONE),
    _Row("deno", r"ReferenceError: (?:localStorage|sessionStorage|caches|indexedDB) is not", _KEPT),
    _Row("deno", r"ReferenceError: (?:prompt|confirm|alert) is not", _INPUT),
    _Row("deno", r"\w+: (?:\S*\b)?require is not ", _REQUIRE),
    _Row("deno", r"ReferenceError: (?:module|exports) is not", _EXPORT),
    _Row("deno", r"ReferenceError: process is not", _NODE_PROCESS),
    _Row("deno", r"ReferenceError: global is not", "write globalThis in place of global"),
    _Row("deno", r"ReferenceError: __(?:dirname|filename) is not", _NO_FILES),
    _Row("deno", r"\w+: (?:\S*\b)?(?:window|document|XMLHttpRequest) is not ", "there is no page here; do without it"),
    _Row("deno", r"\w+: .*?\b(?P<name>" + _SECRET + r")\b", _variable),
    _Row("deno", _SAYS_VARIABLE, _variable),
)
"""The first that fits counts, so what is narrower stands first."""


@cache
def _patterns() -> tuple[tuple[_Row, re.Pattern[str], re.Pattern[str]], ...]:
    return tuple((row, re.compile(row.error, re.DOTALL), re.compile(row.frames)) for row in _ROWS)
