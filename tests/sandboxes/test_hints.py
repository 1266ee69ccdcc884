"""The next step after what scripts commonly try and a sandbox has not: tried in each, with the real modules."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from runner import evaluate
from runner.cli.main import cli
from runner.core.doors import speaking
from runner.inputs.evaluators.load import parse_evaluator
from sandboxes import Call, SandboxConfig
from sandboxes.models import Limits
from sandboxes.process.sandbox import ProcessConfig, ProcessSandbox
from sandboxes.words.hints import BOX, WASM, Failure, Place, next_step
from sandboxes.words.wording import Setting
from tests.scripts import python

TRIES = {
    "thread": "import threading\nthreading.Thread(target=print).start()",
    "timer": "import threading\nthreading.Timer(0.01, print).start()",
    "thread pool": "from concurrent.futures import ThreadPoolExecutor\nlist(ThreadPoolExecutor().map(abs, [1]))",
    "to_thread": "import asyncio\nasyncio.run(asyncio.to_thread(abs, 1))",
    "pool": "import multiprocessing\nwith multiprocessing.Pool(2) as pool: pool.map(abs, [1])",
    "process pool": "from concurrent.futures import ProcessPoolExecutor\n"
    "with ProcessPoolExecutor(2) as pool: list(pool.map(abs, [1]))",
    "dummy pool": "from multiprocessing.dummy import Pool\nwith Pool(2) as pool: pool.map(abs, [1])",
    "queue": "import multiprocessing\nqueue = multiprocessing.Queue()\nqueue.put(1)\nqueue.get(timeout=30)",
    "value": "import multiprocessing\nmultiprocessing.Value('i', 1).value",
    "lock": "import multiprocessing\nmultiprocessing.RLock().acquire()",
    "manager": "import multiprocessing\nmultiprocessing.Manager()",
    "spawn": "import multiprocessing\nmultiprocessing.get_context('spawn').Pool(1).map(abs, [1])",
    "forkserver": "import multiprocessing\nmultiprocessing.get_context('forkserver').Pool(1).map(abs, [1])",
    "shared memory": "from multiprocessing import shared_memory\nshared_memory.SharedMemory(create=True, size=9)",
    "tempfile": "import tempfile\nwith tempfile.NamedTemporaryFile('w') as file: file.write('a')",
    "temporary folder": "import tempfile\nwith tempfile.TemporaryDirectory(): pass",
    "alarm": "import signal\nsignal.alarm(9)",
    "setitimer": "import signal\nsignal.setitimer(signal.ITIMER_REAL, 9)",
    "zone": "from zoneinfo import ZoneInfo\nZoneInfo('Europe/Berlin')",
    "subprocess": "import subprocess\nsubprocess.run(['echo', 'a'])",
    "shell": "import subprocess\nsubprocess.check_output('echo a', shell=True)",
    "system": "import os\nos.system('true')",
    "os.popen": "import os\nos.popen('echo a').read()",
    "os.spawnlp": "import os\nos.spawnlp(os.P_WAIT, 'true', 'true')",
    "os.execvp": "import os\nos.execvp('true', ['true'])",
    "asyncio's subprocess": "import asyncio\n"
    "async def start(): await asyncio.create_subprocess_exec('true')\nasyncio.run(start())",
    "urllib": "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:9/')",
    "https": "import urllib.request\nurllib.request.urlopen('https://127.0.0.1:9/')",
    "http.client": "import http.client\nhttp.client.HTTPSConnection('127.0.0.1', 9).request('GET', '/')",
    "socket": "import socket\nsocket.create_connection(('127.0.0.1', 9))",
    "names": "import socket\nsocket.getaddrinfo('example.com', 80)",
    "asyncio's socket": "import asyncio\nasyncio.run(asyncio.open_connection('127.0.0.1', 9))",
    "server": "import http.server\nhttp.server.HTTPServer(('', 0), http.server.BaseHTTPRequestHandler)",
    "open": "open('words.txt').read()",
    "open for reading a key": "import json\njson.load(open('config.json'))['a']",
    "beside": "from pathlib import Path\n(Path(__file__).parent / 'more' / 'words.txt').read_text()",
    "write": "open('out.txt', 'w').write('a')",
    "makedirs": "import os\nos.makedirs('cache/x')",
    "folder": "import os\nos.listdir('data')",
    "/dev/null": "import os\nopen(os.devnull, 'w')",
    "/proc": "open('/proc/self/status').read()",
    "sqlite": "import sqlite3\nsqlite3.connect('x.db').execute('create table t (a)')",
    "environ": "import os\nos.environ['OPENAI_API_KEY']",
    "getenv": "import os\nos.getenv('OPENAI_API_KEY').strip()",
    "own words": "raise ValueError('set MY_API_KEY first')",
    "HOME": "import os\nos.environ['HOME']",
    "home": "from pathlib import Path\nPath.home()",
    "getuser": "import getpass\ngetpass.getuser()",
    "getpass": "import getpass\ngetpass.getpass()",
    "getlogin": "import os\nos.getlogin()",
    "getpwuid": "import os, pwd\npwd.getpwuid(os.getuid())",
    "input": "input('name? ')",
    "breakpoint": "breakpoint()\nreturn 1",
    "argparse": "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--x', required=True)\n"
    "parser.parse_args()",
    "argv": "import sys\nsys.argv[1]",
    "exit": "import sys\nsys.exit(1)",
    "locale": "import locale\nlocale.setlocale(locale.LC_ALL, 'de_DE.UTF-8')",
    "mmap": "import mmap\nmmap.mmap(-1, 9)",
    "winreg": "import winreg",
    "curses": "import curses\ncurses.initscr()",
    "asyncore": "import asyncore",
}
"""What a function's body tries."""

PROCESS, OPENED = "choose the process sandbox", "choose the process sandbox with SandboxConfig(network=True)"
PROGRAMS = "no sandbox starts programs: compute it in Python"
IN_WASM = {
    **dict.fromkeys(("thread", "timer", "thread pool", "to_thread"), f"starts no threads; {PROCESS}"),
    **dict.fromkeys(("pool", "process pool", "dummy pool", "queue", "value", "lock", "manager", "spawn"), PROCESS),
    **dict.fromkeys(("forkserver", "shared memory", "getpwuid", "mmap", "home", "getuser", "HOME"), PROCESS),
    **dict.fromkeys(("tempfile", "temporary folder", "write", "makedirs"), f"or io.BytesIO(), or {PROCESS}, which has"),
    **dict.fromkeys(("alarm", "setitimer"), f"leave the limit to Limits(timeout=…), which each call has, or {PROCESS}"),
    **dict.fromkeys(("subprocess", "shell", "system", "os.popen", "os.spawnlp", "os.execvp"), PROGRAMS),
    **dict.fromkeys(("urllib", "https", "http.client", "socket", "names", "asyncio's socket", "server"), OPENED),
    **dict.fromkeys(("getpass", "input"), "nobody types in a sandbox"),
    **dict.fromkeys(("argparse", "argv"), "a script has no command line"),
    "asyncio's subprocess": PROGRAMS,
    "zone": f"knows no time zones but datetime.timezone.utc; {PROCESS}",
    "open": f'{PROCESS} with SandboxConfig(files={{"WORDS": "words.txt"}}), and open os.environ["WORDS"]',
    "open for reading a key": 'SandboxConfig(files={"CONFIG": "config.json"})',
    "beside": 'SandboxConfig(files={"WORDS": "more/words.txt"})',
    "folder": "a script sees none of your files",
    "/dev/null": f"io.StringIO() instead, or {PROCESS}",
    "/proc": "sees nothing of the machine",
    "sqlite": 'sqlite3.connect(":memory:")',
    "environ": f'{PROCESS} with SandboxConfig(env=["OPENAI_API_KEY"])',
    "getenv": f"{PROCESS} with SandboxConfig(env=…)",
    "own words": f'{PROCESS} with SandboxConfig(env=["MY_API_KEY"])',
    "getlogin": "a sandbox has no terminal",
    "breakpoint": "print instead",
    "exit": "in place of sys.exit",
    "locale": "the locale C.UTF-8 alone",
    "winreg": "on Windows alone",
    "curses": "no screen",
    "asyncore": "Python 3.12 took `asyncore` out of its library",
}

FORKS, OFFLINE = 'multiprocessing.get_context("fork").Pool', "no network unless SandboxConfig(network=True) opens it"
KEPT = "below /tmp alone"
IN_PROCESS = {
    **dict.fromkeys(("manager", "spawn", "forkserver", "shared memory"), FORKS),
    **dict.fromkeys(("subprocess", "shell", "system", "os.popen", "os.spawnlp", "os.execvp"), PROGRAMS),
    **dict.fromkeys(("urllib", "https", "http.client", "socket", "names", "asyncio's socket", "server"), OFFLINE),
    **dict.fromkeys(("getpass", "input"), "nobody types in a sandbox"),
    **dict.fromkeys(("argparse", "argv"), "a script has no command line"),
    **dict.fromkeys(("write", "makedirs"), KEPT),
    "asyncio's subprocess": PROGRAMS,
    "open": 'name it: SandboxConfig(files={"WORDS": "words.txt"}), and open os.environ["WORDS"]',
    "open for reading a key": 'SandboxConfig(files={"CONFIG": "config.json"})',
    "beside": 'SandboxConfig(files={"WORDS": ',
    "folder": "a script sees none of your files",
    "sqlite": 'sqlite3.connect(":memory:")',
    "environ": 'name it: SandboxConfig(env=["OPENAI_API_KEY"])',
    "getenv": "name each: SandboxConfig(env=…)",
    "own words": 'name it: SandboxConfig(env=["MY_API_KEY"])',
    "getlogin": "no terminal",
    "getpwuid": 'os.environ["USER"]',
    "breakpoint": "print instead",
    "exit": "in place of sys.exit",
    "locale": "the locale C.UTF-8 alone",
    "mmap": "flags=mmap.MAP_PRIVATE",
    "winreg": "on Windows alone",
}
EITHER_WAY = {"/proc", "curses", "asyncore"}
"""What depends on the tier, or on the Python that runs evalcell."""


@pytest.fixture(scope="module")
def said(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """What the sandbox says to each, by its name; nothing where it works."""
    script = tmp_path_factory.mktemp("hints") / "tries.py"
    functions = [f"def try_{n}():\n{textwrap.indent(body, '    ')}\n" for n, body in enumerate(TRIES.values())]
    names = ", ".join(f"{name!r}: try_{n}" for n, name in enumerate(TRIES))
    script.write_text("".join(functions) + f"def evaluate(output):\n    {{{names}}}[output]()\n    return 1\n")
    config = SandboxConfig(backend=request.param, isolation="call")
    rows = [{"output": name} for name in TRIES]
    report = evaluate(script, rows, sandbox=config, limits=Limits(timeout=60), max_failed="100%")
    return {name: row.error.message if row.error else "" for name, row in zip(TRIES, report.results, strict=True)}


@pytest.mark.parametrize("said", ["wasm"], indirect=True)
def test_wasm_names_the_way_for_each(said: Mapping[str, str]) -> None:
    assert {name: text for name, text in said.items() if IN_WASM[name] not in text or not text} == {}


@pytest.mark.parametrize("said", ["process"], indirect=True)
def test_process_does_it_or_names_the_way(said: Mapping[str, str]) -> None:
    plain = {name: text for name, text in said.items() if name not in EITHER_WAY}
    assert {name for name, text in plain.items() if text} == IN_PROCESS.keys()
    assert {name: text for name, text in said.items() if IN_PROCESS.get(name, "") not in text} == {}


def test_deno_names_the_way_for_each(tmp_path: Path) -> None:
    tries = {
        "process.env.KEY": "`process` of Node is not there",
        "fetch('https://example.com/')": "a TypeScript script has no network",
        "fetch('./words.json')": "reads and writes no files",
        "Deno.readTextFile('words.txt')": "reads and writes no files",
        "Deno.writeTextFileSync('a', 'b')": "reads and writes no files",
        "new Deno.Command('echo')": "starts no programs, servers or Workers",
        "Deno.serve(() => 1)": "starts no programs, servers or Workers",
        "Deno.connect({ port: 9 })": "a TypeScript script has no network",
        "Deno.hostname()": "of `Deno` there are",
        "new Worker('w.ts')": "starts no programs, servers or Workers",
        "new WebSocket('ws://127.0.0.1:9/')": "a TypeScript script has no network",
        "localStorage.getItem('a')": "use a Map",
        "prompt('name?')": "nobody types",
        "require('fs')": "in place of require",
        "module.exports": "write `export` before the function",
        "__dirname": "reads and writes no files",
        "global.x": "write globalThis",
        "document.title": "there is no page",
        "(() => { throw new Error('OPENAI_API_KEY is not set') })()": "make `OPENAI_API_KEY` a parameter of its",
        "import('./helper' + '.ts')": "`import` or the header's `files` names it",
    }
    source = "const eachOf: any = [" + ", ".join(f"async () => {body}" for body in tries) + "];\n"
    source += "export const evaluate = ({ output }: any) => eachOf[output]();\n"
    config, rows = SandboxConfig(backend="deno", isolation="call"), [{"output": n} for n in range(len(tries))]
    script = tmp_path / "tries.ts"
    script.write_text(source)
    report = evaluate(script, rows, sandbox=config, limits=Limits(timeout=60), max_failed="100%")
    said = {body: row.error.message if row.error else "" for body, row in zip(tries, report.results, strict=True)}
    assert {body: text for body, text in said.items() if tries[body] not in text or not text} == {}


@pytest.mark.parametrize("caught", [True, False])
def test_deno_names_no_flag_of_its_own(caught: bool) -> None:
    call = 'await fetch("http://127.0.0.1:11211/");'
    caught_call = f"try {{ {call} }} catch (error: any) {{ return {{ score: 0, explanation: error.message }}; }}"
    source = f"export async function evaluate({{ output }}: any) {{ {caught_call if caught else call} return 1; }}\n"
    evaluator = parse_evaluator(source, "s", "s.ts", language="typescript")
    (result,) = evaluate(evaluator, [{"output": "a"}], max_failed="100%").results
    said = result.explanation if caught else result.error and result.error.message
    assert said is not None
    assert 'Requires net access to "127.0.0.1:11211", which a script in a sandbox has not' in said
    assert "--allow-net" not in said
    assert result.error is None or "a TypeScript script has no network" in result.error.message


@pytest.mark.parametrize("sandbox", ["wasm", "process"])
@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("Path(__file__).parents[3]", ("NAME", "PATH")),
        ("HERE.parents[2]", ("NAME", "PATH")),
        ("__file__.split('/')[-3]", ("NAME", "PATH")),
        (
            "(Path(__file__).resolve().parents[1] / 'data' / 'gold-v2.json').read_text()",
            ("GOLD_V2", "PATH/gold-v2.json"),
        ),
        (
            'next(one for one in HERE.parents if (one / "pyproject.toml").exists())',
            ("PYPROJECT", "PATH/pyproject.toml"),
        ),
    ],
)
def test_a_script_that_looks_above_itself_is_told_where_it_runs(
    sandbox: str, line: str, file: tuple[str, str], tmp_path: Path
) -> None:
    script = tmp_path / "above.py"
    source = f"from pathlib import Path\nHERE = Path(__file__)\n{line}\n\n\ndef evaluate(output):\n    return 1\n"
    script.write_text(source)
    (result,) = evaluate(script, [{"output": "a"}], sandbox=sandbox, max_failed="100%").results
    assert result.error is not None
    assert "a script runs in a folder of its own, with nothing above it or beside it" in result.error.message
    name, path = file
    assert (
        f'SandboxConfig(files={{"{name}": "{path}"}}), and write `Path(os.environ["{name}"])`' in result.error.message
    )
    assert ("choose the process sandbox" in result.error.message) == (sandbox == "wasm")


def test_the_file_that_a_script_looks_for_above_itself_is_read_by_its_variable(tmp_path: Path) -> None:
    gold, script = tmp_path / "gold.json", tmp_path / "above.py"
    gold.write_text('{"a": 1}')
    script.write_text(
        'import json, os\nfrom pathlib import Path\nGOLD = json.loads(Path(os.environ["GOLD"]).read_text())\n\n\n'
        "def evaluate(output):\n    return GOLD[output]\n"
    )
    config = SandboxConfig(backend="process", files={"GOLD": str(gold)})
    assert evaluate(script, [{"output": "a"}], sandbox=config).results[0].score == 1


def test_a_script_that_ends_where_a_file_is_not_there_is_told_of_the_file(tmp_path: Path) -> None:
    script = tmp_path / "ends.py"
    script.write_text(
        "import sys\ntry:\n    GOLD = open('data/gold.json').read()\nexcept FileNotFoundError:\n"
        "    print('no gold')\n    sys.exit(1)\n\n\ndef evaluate(output):\n    return 1\n"
    )
    (result,) = evaluate(script, [{"output": "a"}], max_failed="100%").results
    assert result.error is not None
    assert "it ends there, as `data/gold.json` is not there" in result.error.message
    assert 'SandboxConfig(files={"GOLD": "data/gold.json"}), and open os.environ["GOLD"]' in result.error.message


@pytest.mark.parametrize("place", [WASM, BOX])
@pytest.mark.parametrize("module", ["_repair_layer", "_shared.graders", "__my"])
def test_a_private_module_may_be_a_file_of_the_user(place: Place, module: str) -> None:
    step = next_step(Failure("ModuleNotFoundError", f"No module named '{module}'", missing=module), place)
    assert step is not None
    assert "if a file of yours is meant, put it into the script's folder" in step


def test_what_psutil_looks_for_is_not_there(tmp_path: Path) -> None:
    script = tmp_path / "asks.py"
    header = '# /// script\n# dependencies = ["psutil"]\n# ///\n'
    script.write_text(f"{header}import psutil\npsutil.Process(2)\n\n\ndef evaluate(output):\n    return 1\n")
    (result,) = evaluate(script, [{"output": "a"}], max_failed="100%").results
    assert result.error is not None
    assert "which psutil reads: do without it" in result.error.message


@pytest.mark.parametrize(
    ("kind", "text", "trace"),
    [
        ("ConnectionError", "HTTPSConnectionPool(host='x', port=443): Max retries exceeded (Caused by …)", ""),
        ("APIConnectionError", "Connection error.", ""),
        ("ConnectError", "[Errno -3] Temporary failure in name resolution", ""),
        ("OSError", "We couldn't connect to 'https://huggingface.co' to load the files", ""),
        (
            "FileNotFoundError",
            "Couldn't find a module script at /bleu/bleu.py. Module 'bleu' doesn't exist on the Hugging Face Hub "
            "either.",
            "",
        ),
        ("DatasetNotFoundError", "Dataset 'squad' doesn't exist on the Hub or cannot be accessed.", ""),
        ("ConnectionError", "Couldn't reach 'squad' on the Hub (LocalEntryNotFoundError)", ""),
        ("OSError", "Can't load tokenizer for 'gpt2'. If you were trying to load it from …", ""),
        ("OSError", "x/y is not a local folder and is not a valid model identifier listed on …", ""),
        ("LookupError", "\n*****\n  Resource punkt_tab not found.\n  Please use the NLTK Downloader", ""),
    ],
)
def test_packages_errors_without_a_network_name_it(kind: str, text: str, trace: str) -> None:
    failure = Failure(kind, text, trace)
    assert "SandboxConfig(network=True)" in str(next_step(failure, BOX))
    assert next_step(failure, Place("box", network=True)) is None


def test_data_of_nltk_is_named_with_what_to_do_once() -> None:
    text = "\n*****\n  Resource 'punkt_tab' not found.\n  >>> import nltk\n  >>> nltk.download('punkt_tab')\n"
    step = str(next_step(Failure("LookupError", text), BOX))
    assert "nltk wants to download `punkt_tab`; do this once: `python -m nltk.downloader -d nltk_data_mine" in step
    assert "docs/how-to/package-data.md" in step


def test_the_other_package_of_the_same_module_is_named() -> None:
    failure = Failure("TypeError", "Rouge.__init__() got an unexpected keyword argument 'max_n'")
    step = str(next_step(failure, BOX))
    assert "py-rouge is meant" in step
    assert 'packages=["py-rouge", "nltk", "setuptools<81"]' in step


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("Exception", "Unable to find javac"),
        ("RuntimeError", "JAVA_HOME environment variable is not set"),
        ("KeyError", "'JAVA_HOME'"),
        ("JVMNotFoundException", "No JVM shared library file (libjvm.so) found."),
        ("FileNotFoundError", "[Errno 2] No such file or directory: 'java'"),
        ("ModuleNotFoundError", "No java install detected. Please install java; java was not found"),
        ("TesseractNotFoundError", "tesseract is not installed or it's not in your PATH. See README file"),
    ],
)
def test_programs_of_the_machine_are_not_there(kind: str, text: str) -> None:
    trace = 'File "<frozen os>", line 679, in __getitem__' if kind == "KeyError" else ""
    assert "a script sees no programs of this machine" in str(next_step(Failure(kind, text, trace), BOX))
    assert next_step(Failure("ValueError", "no such word as java"), BOX) is None


@pytest.mark.parametrize("sandbox", ["wasm", "process"])
@pytest.mark.parametrize(
    ("value", "read", "step"),
    [
        ([{"name": "a"}], "output[0].name", 'read `["name"]` of it, or make it one that has'),
        ({"text": "a"}, "output.lower()", "an object stands where the script works with a text: give it the text"),
        ([{"text": "a"}], "output[0].split()", "or, of a list of objects, `COLUMN[0].KEY`"),
        ('{"total": 1}', 'output["total"]', "a text stands where the script reads an object: read it by json.loads"),
        ("a", 'output.get("total")', "if it is a column that holds JSON, give "),
        (
            "a",
            'output[0]["content"]',
            "a text stands where the script reads a conversation: it needs a list of messages",
        ),
        ("a", 'output.get("total")', "`output` is a text in this row; a text stands where"),
        (["a"], "output.lower()", "`output` is a list in this row; a list stands where"),
        (None, "output.lower()", "`output` is None in this row, which has nothing for it: return None for a row"),
        (1, "output[0]", "`output` is a number in this row"),
        ("a", "output.is_dir()", "`output` is a text where the script reads a pathlib.Path, and a row holds text"),
        ("a", "[x for x in output.rglob('*')]", "or put what they hold into a column"),
        ("a", "output.stem", 'give each with SandboxConfig(files={"NAME": "PATH"})'),
        ("a", "output / 'a.csv'", "a value is a text where the script reads a pathlib.Path"),
        (["a"], "output.lower()", "a list stands where the script works with a text: if its parts are answers"),
        (["a"], "__import__('re').findall('a', output)", "for the first one alone give "),
        ("a", "xrange(3)", "this is Python 2's: the script runs in Python 3"),
        ("a", "__import__('fractions').Fraction(1, 2)", "a value of the type fractions.Fraction: return float(x)"),
    ],
)
def test_the_way_to_read_a_value_that_has_another_shape(sandbox: str, value: object, read: str, step: str) -> None:
    source = f"def evaluate(output):\n    return {read}\n"
    (result,) = evaluate(
        parse_evaluator(source, "script"), [{"output": value}], sandbox=sandbox, max_failed="100%"
    ).results
    assert result.error is not None
    assert step in result.error.message


@pytest.mark.parametrize(
    "text",
    [
        "MY_ENDPOINT environment variable is not set.",
        "Set the environment variable MY_ENDPOINT first",
        "please export MY_ENDPOINT in your env",
    ],
)
def test_an_error_that_names_a_variable_of_the_environment_says_how_to_pass_it(text: str) -> None:
    assert '(env=["MY_ENDPOINT"])' in str(next_step(Failure("ValueError", text), BOX))
    assert next_step(Failure("ValueError", text), Place("box", env=("MY_ENDPOINT",))) is None


CLIENTS = [
    (
        "TypeError",
        "Could not resolve authentication method. Expected either api_key or admin_api_key",
        "openai",
        "OPENAI",
    ),
    ("TypeError", '"Could not resolve authentication method. Expected either api_key or auth_token"', "", "ANTHROPIC"),
    ("TypeError", '"Could not resolve authentication method. Expected one of api_key"', "anthropic", "ANTHROPIC"),
    ("ValueError", "Missing key inputs argument! To use the Google AI API, provide (`api_key`)", "", "GEMINI"),
    ("ValueError", "No API key was provided. Please pass a valid API key.", "google/genai", "GEMINI"),
    ("AuthenticationError", "litellm.AuthenticationError: OpenAIException - bad", "litellm", "OPENAI"),
    ("AuthenticationError", "litellm.AuthenticationError: Missing Anthropic API Key", "litellm", "ANTHROPIC"),
    ("AuthenticationError", "No API key provided.", "openai", "OPENAI"),
    ("SDKError", "API error occurred: Status 401 Unauthorized", "mistralai", "MISTRAL"),
    ("UnauthorizedError", "status_code: 401, body: {}", "cohere", "CO"),
    ("AuthenticationError", "Error code: 401 - {}", "groq", "GROQ"),
    ("AuthenticationError", "Error code: 401 - {}", "together", "TOGETHER"),
    ("InternalServerError", "OpenAIException - Missing credentials, or set the `OPENAI_API_KEY`", "litellm", "OPENAI"),
]


@pytest.mark.parametrize(("kind", "text", "package", "name"), CLIENTS)
def test_a_client_without_a_key_is_told_its_variable(kind: str, text: str, package: str, name: str) -> None:
    trace = f'  File "/x/site-packages/{package}/_client.py", line 3, in create\n    raise' if package else ""
    failure = Failure(kind, text, trace)
    with speaking("options"):
        way = f"--env {name}_API_KEY and --allow-network, for what it calls with that"
        assert next_step(failure, BOX) == f"a script sees none of your variables; name it: {way}"
        assert next_step(failure, WASM) == f"a script sees none of your variables; choose --sandbox process with {way}"
        assert next_step(failure, Place("box", env=(f"{name}_API_KEY",))) is None
        other = next_step(Failure("ValueError", "API key is missing"), BOX)
        assert (
            other
            == "a script sees none of your variables; name it: --env NAME and --allow-network, for what it "
            + ("calls with that")
        )


def test_the_address_of_a_judge_is_there_where_one_is_granted() -> None:
    failure = Failure("KeyError", "'ANTHROPIC_BASE_URL'", 'File "<frozen os>", line 685, in __getitem__')
    with speaking("options"):
        assert next_step(failure, WASM) == "it is set where a judge is granted: --judge anthropic"


def test_an_error_of_the_scripts_own_gets_no_step() -> None:
    own = (
        Failure("KeyError", "'OPENAI_API_KEY_'", 'File "evaluator.py", line 3, in evaluate'),
        Failure("ZoneInfoNotFoundError", "'No time zone found with key Europe/Berln'"),
        Failure("AttributeError", "'dict' object has no attribute 'iteritems'", 'File "evaluator.py", line 1'),
        Failure("AttributeError", "'dict' object has no attribute 'a'", 'File "/x/site/pandas/core.py", line 1'),
        Failure("AttributeError", "module 'os' has no attribute 'sytem'"),
        Failure("TypeError", "unsupported operand type(s) for +: 'NoneType' and 'int'", "x = row.get('a')"),
        Failure("IndexError", "list index out of range", "rows[1]"),
        Failure("IndexError", "3", "mine[3]"),
        Failure("TypeError", "unsupported operand type(s) for /: 'str' and 'str'", '  File "e.py", line 1\n    a / b'),
        Failure("AttributeError", "'NoneType' object has no attribute 'group'", "    re.match(a, b).group()"),
        Failure("EOFError", "Ran out of input", "pickle.load(file)"),
        Failure("PermissionError", "[Errno 1] my own words", "evaluate"),
    )
    assert [next_step(one, place) for one in own for place in (BOX, WASM)] == [None] * 2 * len(own)


def test_a_variable_that_the_script_has_is_not_proposed() -> None:
    wrong = Failure("AuthenticationError", "Incorrect API key provided: check OPENAI_API_KEY")
    assert 'env=["OPENAI_API_KEY"]' in str(next_step(wrong, BOX))
    assert next_step(wrong, Place("box", env=("OPENAI_API_KEY",))) is None


def test_the_command_line_says_it_in_options() -> None:
    with speaking("options"):
        assert str(Setting("sandbox.files", {"MY_WORDS": "my words.txt"})) == "--file 'MY_WORDS=my words.txt'"
        step = next_step(Failure("AuthenticationError", "Incorrect API key provided: check A_KEY"), WASM)
        assert str(step).endswith(
            "choose --sandbox process with --env A_KEY and --allow-network, for what it calls with that"
        )


def test_the_line_that_the_message_names_can_be_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("words.txt").write_text("one two")
    Path("rows.jsonl").write_text('{"output": "two"}\n')
    script = "import os\ndef evaluate(output):\n    return output in open({}).read()\n"
    Path("same.py").write_text(script.format("'words.txt'"))
    first = CliRunner().invoke(cli, ["run", "same.py", "rows.jsonl"])
    step = '--sandbox process with --file WORDS=words.txt, and open os.environ["WORDS"]'
    assert step in " ".join(first.output.split())
    Path("same.py").write_text(script.format('os.environ["WORDS"]'))
    again = CliRunner().invoke(
        cli, ["run", "same.py", "rows.jsonl", "--sandbox", "process", "--file", "WORDS=words.txt"]
    )
    assert (again.exit_code, "True" in again.output) == (0, True), again.output


def test_a_tier_without_a_folder_names_what_it_lacks() -> None:
    tries = {
        "import tempfile\n    tempfile.mkdtemp()": "keep it in memory",
        "import multiprocessing\n    multiprocessing.get_context('fork').Lock()": "use threads",
        "import multiprocessing\n    multiprocessing.get_context('fork').Pool(2)": "use threads",
        "open('words.txt').read()": 'SandboxConfig(files={"WORDS": "words.txt"})',
        "open('/etc/hostname').read()": 'SandboxConfig(files={"HOSTNAME": "/etc/hostname"})',
    }

    async def said() -> list[str]:
        async with ProcessSandbox(ProcessConfig(tier="B", jobs=1)) as sandbox:
            found = []
            for body in tries:
                program = await sandbox.load(python(f"def evaluate():\n    {body}\n"), Limits())
                found += [e.error.hint or "" async for e in program.run([Call(id=0)], Limits()) if e.error]
            return found

    assert [step in hint for step, hint in zip(tries.values(), asyncio.run(said()), strict=True)] == [True] * len(tries)


def test_a_path_that_the_script_makes_of_its_own_place_is_not_taken_for_yours() -> None:
    def step(path: str) -> str:
        return str(next_step(Failure("FileNotFoundError", f"[Errno 2] No such file or directory: '{path}'"), BOX))

    assert '{"TASKS": "PATH/tasks.json"}' in step("/tasks.json")
    assert '{"TASKS": "PATH/tasks.json"}' in step("/more/tasks.json")
    assert '{"TASKS": "/home/me/tasks.json"}' in step("/home/me/tasks.json")
    assert '{"TASKS": "more/tasks.json"}' in step("more/tasks.json")


def test_a_relative_import_of_an_installed_package_is_not_the_scripts() -> None:
    own = 'File "evaluator.py", line 1'
    text = "attempted relative import with no known parent package"
    inside = Failure("ImportError", text, f'{own}\nFile "/packages/latex2sympy2.py", line 9')
    assert "in the installed package `latex2sympy2`" in str(next_step(inside, BOX))
    assert 'packages=["latex2sympy2==VERSION"]' in str(next_step(inside, BOX))
    assert "a file beside the script" in str(next_step(Failure("ImportError", text, own), BOX))


def test_a_key_of_a_service_needs_the_network_too() -> None:
    error = Failure("OpenAIError", "set the OPENAI_API_KEY environment variable")
    assert "SandboxConfig(network=True)" in str(next_step(error, BOX))
    assert "SandboxConfig(network=True)" in str(next_step(error, WASM))
    assert "network" not in str(next_step(error, Place("box", network=True)))
    assert "network" not in str(next_step(Failure("ValueError", "MY_MODE environment variable"), BOX))
