"""Hostile TypeScript: each comes to an end that was foreseen, harms nobody, and costs its neighbours nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import pytest

from sandboxes import boxes, deno, guest
from sandboxes.boxes.launch import Tier
from sandboxes.deno.binary import find_deno
from tests.deno.hosts import LOAD_TIMEOUT, Host, as_before, hosts, tiers
from tests.deno.scripts import ATTACKS, LOADS, TRACES
from tests.landlock_abi import VERSIONS, held
from tests.sandboxes.hostile.scripts import Hostile

# The first test waits for others' scripts, on a busy machine long.
pytestmark = [pytest.mark.rotating("hostile", "deno"), pytest.mark.timeout(300)]

ALL = (*LOADS, *TRACES, *ATTACKS)
EVALUATE = "export function evaluate(): number { return 1; }\n"
ODD_SOURCES = {
    "empty": "",
    "null-byte": "const x = 1\0;\n" + EVALUATE,
    "byte-order-mark": "\ufeff" + EVALUATE,
    "lone-surrogate": "const x = '\ud800';\n" + EVALUATE,
    "line-separators": "\u2028\u2029\v\f\u00a0" + EVALUATE,
    "right-to-left": "const \u202e x = 1;\n" + EVALUATE,
    "parentheses": "const x = " + "(" * (1 << 17) + "1" + ")" * (1 << 17) + ";\n" + EVALUATE,
    "brackets-unclosed": "[" * (1 << 18),
    "types-nested": "type X = " + "Array<" * (1 << 15) + "1" + ">" * (1 << 15) + ";\n" + EVALUATE,
    "minuses": "const x = " + "- " * (1 << 17) + "1;\n" + EVALUATE,
    "long-line": "const x = '" + "a" * (1 << 18) + "';\n" + EVALUATE,
    "many-names": "".join(f"const n{n} = 1;\n" for n in range(20000)) + EVALUATE,
    "many-exports": "".join(f"export const n{n} = 1;\n" for n in range(9000)) + EVALUATE,
    "nested-blocks": "{" * (1 << 15) + "}" * (1 << 15) + EVALUATE,
    "nested-functions": "const f = " + "() => " * (1 << 15) + "1;\n" + EVALUATE,
    "nested-templates": "const x = " + "`${" * 9000 + "1" + "}`" * 9000 + ";\n" + EVALUATE,
    "comment-unclosed": EVALUATE + "/*",
    "template-unclosed": "function evaluate() { return 1; }\nconst x = `",
    "ends-in-a-comment": "function evaluate() { return 1; } //",
    "huge-number": "const x = " + "9" * (1 << 17) + "n;\n" + EVALUATE,
    "exported-twice": EVALUATE + EVALUATE,
    "exported-and-local": "function evaluate() { return 1; }\nexport { evaluate };\nexport default evaluate;",
    "exported-by-another-name": "function f() { return 1; }\nexport { f as evaluate };",
    "string-export-name": "const f = () => 1;\nexport { f as 'evaluate' };",
}


def _places(script: Hostile, tiers: Sequence[Tier]) -> tuple[str, ...]:
    """
    The hosts for a script: one of the four, of two tiers and two isolations, in turn; each fifth has two of them.

    Each script in each would take more time than all other tests together.
    """
    number, first, last = ALL.index(script), tiers[0], tiers[-1]
    pair = (f"{first}-call", f"{last}-batch") if number % 2 else (f"{first}-batch", f"{last}-call")
    return (pair[number // 2 % 2],) if script in LOADS or number % 5 else pair


@pytest.fixture(scope="module", params=VERSIONS)
def every(request: pytest.FixtureRequest, open_folder: Path) -> Iterator[Mapping[str, Host]]:
    """Begins with all the scripts that this session will ask for; nothing is changed or left when they end."""
    asked = [i.callspec.params for i in request.session.items if hasattr(i, "callspec")]
    chosen = {id(params.get("script")) for params in asked if params.get("every") == request.param}
    with held(request.param):
        there = tiers()  # opens one, and so keeps the bytecode of what runs inside
        if request.param is not None:
            there = tuple(tier for tier in there if tier == "B") or pytest.skip("tier B does not work here")
        before = _files()
        found = hosts(open_folder / f"landlock-{request.param}", there)
        for name, host in found.items():
            host.begin([s for s in ALL if id(s) in chosen and name in _places(s, there)])
        yield found
        for host in found.values():
            host.finish()
        assert _files() == before


def _files() -> dict[str, tuple[int, ...]]:
    """What a script must not change, and what it must not make."""
    places = [Path(next(iter(package.__path__))) for package in (deno, boxes, guest)]
    ours = [path for top in places for path in sorted(top.rglob("*")) if "__pycache__" not in path.parts]
    tried = [path for name in ("written", "made", "copy", "link", "left*") for path in Path("/tmp").glob(name)]
    found: dict[str, tuple[int, ...]] = {}
    for path in (*ours, *tried, Path(find_deno())):
        about = path.lstat()
        found[str(path)] = (about.st_uid, about.st_gid, about.st_mode)
        if not path.is_dir():  # another test's Python may make a __pycache__ in a folder
            found[str(path)] += (about.st_size, about.st_mtime_ns)
    return found


@pytest.mark.parametrize("script", ALL, ids=lambda s: s.id)
def test_a_hostile_script_harms_nobody(every: Mapping[str, Host], script: Hostile) -> None:
    there = sorted({cast(Tier, name.partition("-")[0]) for name in every})
    for name in _places(script, there):
        every[name].judge(script)


@pytest.mark.parametrize("source", ODD_SOURCES.values(), ids=ODD_SOURCES)
def test_an_odd_source_is_loaded_or_refused(every: Mapping[str, Host], source: str) -> None:
    for told in [host.later(source, load_timeout=LOAD_TIMEOUT) for host in every.values() if host.isolation == "batch"]:
        as_before(told.result())
        loaded, ((found,),) = told.result()["loaded"], told.result()["batches"]
        assert loaded["status"] in ("ok", "error", "crash", "memory", "timeout"), loaded
        assert found["status"] == loaded["status"], found
        assert found["value"] == (1 if found["status"] == "ok" else None), found
