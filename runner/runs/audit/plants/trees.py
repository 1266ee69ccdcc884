"""Other answers that are made of JSON, and answers with a part of them replaced."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from types import UnionType
from typing import Any

from runner.runs.audit.answers import leaves
from runner.runs.audit.plants.types import STRANGE, Change

KEY_ORDER = "same.key_order"
_LEAVES = 6
"""Values of JSON that are changed in a row."""


def empty_lists(tree: Any) -> Any:
    """Return a tree whose lists are empty."""
    if isinstance(tree, dict):
        return {key: empty_lists(value) for key, value in tree.items()}
    return [] if isinstance(tree, list) else tree


def put(tree: Any, keys: Sequence[str | int], value: Any) -> Any:
    """Return a tree with another value at a place; objects on the way there are made."""
    if not keys:
        return value
    first, *rest = keys
    if isinstance(tree, list) and isinstance(first, int) and -len(tree) <= first < len(tree):
        return [*tree[:first], put(tree[first], rest, value), *tree[first:][1:]]
    inner = tree if isinstance(tree, dict) else {}
    return inner | {first: put(inner.get(first), rest, value)}


def change_leaves(tree: Any, draw: random.Random) -> Iterator[tuple[str, str, Any]]:
    """Yield a tree with one value changed, for each of some that are drawn: by check, with the place of the value."""
    every = [(path, value) for path, value in leaves(tree) if path]
    for path, value in sorted(draw.sample(every, min(_LEAVES, len(every))), key=lambda one: str(one[0])):
        kind, new = _other_value(value)
        if kind:
            place = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).removeprefix(".")
            yield f"changed.json_{kind}", place, put(tree, path, new)


def _other_value(value: Any) -> tuple[str, Any]:
    """The kind of a value, empty for null and for trees, and another one of it."""
    if isinstance(value, dict | list):
        return "", damage(value, 1.0, random.Random(1))
    found = ((kind, change(value)) for kind, (of, change) in _KINDS.items() if isinstance(value, of))
    return next(found, ("", STRANGE))


_KINDS: dict[str, tuple[type | UnionType, Change]] = {
    "bool": (bool, lambda value: not value),
    "number": (int | float, lambda value: 2 * value + 1),
    "text": (str, lambda _: f"{STRANGE} text"),
}


def _nodes(tree: Any, kind: type, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(tree, kind) and tree:
        yield path, tree
    if isinstance(tree, dict | list):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from _nodes(value, kind, (*path, key))


def _last_node(kind: type, change: Change, least: int = 1) -> Change:
    def changed(tree: Any) -> Any:
        every = [(path, node) for path, node in _nodes(tree, kind) if len(node) >= least]
        return put(tree, every[-1][0], change(every[-1][1])) if every else None

    return changed


def _without_key(node: dict[str, Any]) -> dict[str, Any]:
    """The object without its first key that has a value: later ones may have a default, and none may mean null."""
    gone = next((key for key, value in node.items() if value not in (None, "", [], {})), None)
    return {key: value for key, value in node.items() if key != gone}


def _reversed_keys(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _reversed_keys(tree[key]) for key in reversed(tree)}
    return [_reversed_keys(one) for one in tree] if isinstance(tree, list) else tree


def _other_key_order(tree: Any) -> Any:
    new = _reversed_keys(tree)
    return None if json.dumps(new) == json.dumps(tree) else new  # equal objects may have their keys in another order


def _text_in_capitals(tree: Any) -> Any:
    every = [(path, value) for path, value in leaves(tree) if isinstance(value, str) and value.upper() != value]
    return put(tree, every[-1][0], every[-1][1].upper()) if every else None


JSON_CHANGES: dict[str, Change] = {
    "sees.key_missing": _last_node(dict, _without_key),
    "sees.key_extra": _last_node(dict, lambda node: {**node, STRANGE: STRANGE}),
    "sees.element_missing": _last_node(list, lambda node: node[:-1]),
    "sees.element_replaced": _last_node(list, lambda node: [*node[:-1], _other_value(node[-1])[1]], 2),
    "sees.element_repeated": _last_node(list, lambda node: [*node[:-1], node[0]], 2),
    "sees.element_twice": _last_node(list, lambda node: [*node, node[-1]]),
    "sees.element_extra": _last_node(list, lambda node: [*node, _other_value(node[-1])[1]]),
    "sees.list_order": _last_node(list, lambda node: node[::-1], 2),
    "sees.text_case": _text_in_capitals,
    KEY_ORDER: _other_key_order,
    "same.indent": lambda tree: json.dumps(tree, ensure_ascii=False, indent=1),
    "same.fence": lambda tree: f"```json\n{json.dumps(tree, ensure_ascii=False)}\n```",
}


def damage(own: Any, share: float, draw: random.Random) -> Any:
    """Return a text or a tree with a share of its words or values replaced."""
    if isinstance(own, dict | list):
        places = [path for path, _ in leaves(own)]
        for path in draw.sample(places, len(places))[: _part(len(places), share)]:
            own = put(own, path, STRANGE)
        return own
    words = own.split() or [own]
    for at in draw.sample(range(len(words)), len(words))[: _part(len(words), share)]:
        words[at] = STRANGE
    return " ".join(words)


def _part(count: int, share: float) -> int:
    return min(count, max(1, round(count * share))) if count else 0
