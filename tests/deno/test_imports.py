"""What a TypeScript script can import, and what of Deno and Node it finds."""

from __future__ import annotations

import pytest

from sandboxes import Execution
from sandboxes.deno.modules import import_problem
from tests.deno.opened import Opened

pytestmark = pytest.mark.rotating("deno", "deno")

FOREIGN = [
    "npm:lodash",
    "npm:lodash@4.17.21/fp",
    "jsr:@std/assert",
    "https://modules.example/x.ts",
    "http://127.0.0.1:81/x.ts",
    "lodash",
    "./other.ts",
    "../other.ts",
    "/other.ts",
]

CLOSED = ["fs", "fs/promises", "net", "http", "child_process", "process", "os", "worker_threads", "vm", "v8", "sqlite"]

PURE = {
    "node:path": ("path.join('a', '../b')", "b"),
    "node:buffer": ("buffer.Buffer.from('é').toString('hex')", "c3a9"),
    "node:util": ("util.inspect({a: 1})", "{ a: 1 }"),
    "node:url": ("url.parse('http://h/p').pathname", "/p"),
    "node:events": ("new events.EventEmitter().listenerCount('x')", 0),
    "node:assert": ("assert.AssertionError.name", "AssertionError"),
    "node:querystring": ("querystring.escape(' ')", "%20"),
    "node:string_decoder": ("typeof string_decoder.StringDecoder", "function"),
    "node:crypto": (
        "crypto.createHash('md5').update('').digest('hex')",
        "d41d8cd98f00b204e9800998ecf8427e",
    ),
    "node:zlib": ("zlib.gunzipSync(zlib.gzipSync('text')).toString()", "text"),
    "node:stream": ("typeof stream.Readable", "function"),
}

STATIC = 'import * as found from "{}";\nexport const evaluate = () => Object.keys(found).length;\n'
DYNAMIC = 'import("{}")'
COMPUTED = 'import(["{}"].join(""))'


@pytest.mark.parametrize("name", FOREIGN)
def test_what_stands_elsewhere_is_not_available_and_the_error_says_so(opened: Opened, name: str) -> None:
    (found,) = opened.evaluate(STATIC.format(name), [{}])
    is_foreign(found)


@pytest.mark.parametrize("how", [DYNAMIC, COMPUTED], ids=["dynamic", "computed"])
def test_nor_is_it_available_later(opened: Opened, how: str) -> None:
    for found in opened.each([how.format(name) for name in FOREIGN]):
        is_foreign(found)


def test_a_module_of_node_without_its_prefix_is_told_with_it(opened: Opened) -> None:
    found = opened.each([DYNAMIC.format("path"), COMPUTED.format("fs")])
    hints = [one.error.hint for one in found if one.error is not None]
    assert hints[0] == "it is a module of Node: write `node:path`"
    assert str(hints[1]).startswith("it is a module of Node that scripts in a sandbox do not have")


def is_foreign(found: Execution) -> None:
    assert found.error is not None
    assert (found.status, found.error.type) == ("error", "TypeError")
    assert found.error.hint is not None
    beside = "a file of the script's folder goes with it if `import` or the header's `files` names it"
    assert found.error.hint == beside or "is declared in the script's header" in found.error.hint
    assert "--allow" not in found.error.message


STATIC_OF_KIND = (
    'import * as found from "{}" with {{type: "{}"}};\nexport const evaluate = () => Object.keys(found).length;\n'
)
COMPUTED_OF_KIND = 'import(["{}"].join(""), {{with: {{type: "{}"}}}})'


@pytest.mark.parametrize("kind", ["text", "json", "bytes"])
def test_no_file_of_the_host_can_be_imported(opened: Opened, kind: str) -> None:
    (found,) = opened.evaluate(STATIC_OF_KIND.format("file:///etc/passwd", kind), [{}])
    assert found.status == "error", found
    paths = ("file:///etc/passwd", "file:///proc/self/environ")
    assert {e.status for e in opened.each([COMPUTED_OF_KIND.format(path, kind) for path in paths])} == {"error"}


def test_what_would_reach_the_system_is_closed(opened: Opened) -> None:
    closed = opened.each([COMPUTED.format(f"node:{name}") for name in CLOSED])
    for name, found in zip(CLOSED, closed, strict=True):
        assert found.error is not None
        assert f"node:{name} is not available in the sandbox" in found.error.message
        assert found.error.hint is not None
        assert "path" in found.error.hint


def test_what_only_computes_works(opened: Opened) -> None:
    lines = [f'import * as {name.removeprefix("node:")} from "{name}";' for name in PURE]
    source = "\n".join(lines) + "\nexport const evaluate = ({code}) => eval(code);\n"
    found = opened.evaluate(source, [{"code": expression} for expression, _ in PURE.values()])
    assert [(e.status, e.value) for e in found] == [("ok", value) for _, value in PURE.values()]


def test_a_module_that_is_data_can_be_imported(opened: Opened) -> None:
    source = 'import five from "data:text/javascript,export default 5";\nexport const evaluate = () => five;\n'
    (found,) = opened.evaluate(source, [{}])
    assert (found.status, found.value) == ("ok", 5), found.error


KEEPS = """
const AsyncFunction = Object.getPrototypeOf(async () => {}).constructor;
export async function evaluate({code}) {
  try { return [await new AsyncFunction(code)()] } catch (error) { return error.name }
}
"""

KEPT = [
    "localStorage.x = (localStorage.x ?? '') + 'x'; return localStorage.x",
    "sessionStorage.x = (sessionStorage.x ?? '') + 'x'; return sessionStorage.x",
    "const c = await caches.open('c'); const had = await c.match('http://h/'); "
    "await c.put('http://h/', new Response('x')); return had ? 'xx' : 'x'",
    "const k = await Deno.openKv(); const had = await k.get(['a']); await k.set(['a'], 'x'); return had.value + 'x'",
    "globalThis.x = (globalThis.x ?? '') + 'x'; return globalThis.x",
    "Array.prototype.x = ([].x ?? '') + 'x'; return [].x",
    "const x = Symbol.for('x'); Math[x] = (Math[x] ?? '') + 'x'; return Math[x]",
]


def test_nothing_that_can_be_kept_is_there_in_the_next_call(opened: Opened) -> None:
    found = opened.evaluate(KEEPS, [{"code": code} for code in KEPT for _ in range(2)], "call")
    for first, second in zip(found[::2], found[1::2], strict=True):
        assert first.status == "ok"
        assert first.value == second.value
        assert first.value == ["x"] or isinstance(first.value, str), "it works within the call, or not at all"


def test_nothing_that_can_be_kept_is_there_in_the_next_batch(opened: Opened) -> None:
    batch = [{"code": code} for code in KEPT]
    first, second = ([e.value for e in opened.evaluate(KEEPS, batch)] for _ in range(2))
    assert first == second


GONE = ["Worker", "BroadcastChannel", "caches", "process", "postMessage"]
GONE_INSIDE = ["navigator.gpu", "navigator.locks", "Deno.readFile", "Deno.Command", "Deno.connect"]


def test_ways_to_the_process_and_to_other_workers_are_not_there(opened: Opened) -> None:
    found = opened.each([f"typeof {name}" for name in GONE + GONE_INSIDE])
    assert [e.value for e in found] == ["undefined"] * len(found)


def test_there_are_no_variables(opened: Opened) -> None:
    found = opened.each(["Deno.env.get('HOME') ?? null", "Deno.env.has('PATH')", "Deno.env.toObject()"])
    assert [e.value for e in found] == [None, False, {}]


def test_what_only_computes_is_there(opened: Opened) -> None:
    names = ["Intl", "URL", "TextEncoder", "structuredClone", "crypto", "WebAssembly", "setTimeout", "queueMicrotask"]
    found = opened.each([f"typeof {name} !== 'undefined'" for name in names])
    assert [e.value for e in found] == [True] * len(names)


@pytest.mark.parametrize("specifier", ["jsr:@std/fs", "https://a.b/c.js"])
def test_of_a_file_with_a_package_the_scoring_function_alone_is_to_be_run(specifier: str) -> None:
    assert "copy the scoring function alone, with what it uses, into a file of its own" in (
        import_problem(specifier) or ""
    )
