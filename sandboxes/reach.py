"""
Find in a Python script what could reach the process that holds it: its frames, objects and memory.

A process that has loaded a script and forks for each run looks for what loading left, with Python that the script could
change if it got hold of it. So a script that names what leads there, or computes names or code, is loaded anew for each
run. What is refused by mistake costs time alone; packages that run a text of the script are not seen through.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator

from sandboxes.models import Isolation, Script

_WORDS = """
    f_back f_locals f_globals f_builtins f_trace tb_frame gi_frame cr_frame ag_frame _getframe _current_frames
    _getframemodulename _current_exceptions currentframe get_objects get_referrers get_referents settrace setprofile
    ctypes _ctypes ctypeslib cffi _cffi_backend CDLL PyDLL dlopen pythonapi py_object memmove memset string_at
    from_address as_strided foreign_buffer carray farray
    setrlimit prlimit _testcapi _testinternalcapi _xxsubinterpreters _interpreters subinterpreters
"""
_DIRECT = frozenset(_WORDS.split())
"""What leads to frames, objects, memory and limits, wherever it is named."""

_WORDS = """
    builtins inspect importlib imp zipimport pkgutil runpy code codeop pydoc doctest pdb bdb trace timeit profile
    cProfile faulthandler resource pickle cPickle _pickle pickletools dill cloudpickle shelve marshal copyreg joblib
    jsonpickle jinja2 mako sympy numexpr numba
"""
_MODULES = frozenset(_WORDS.split())
"""Modules that find or run what a text says."""

_WORDS = """
    exec eval compile getattr setattr delattr attrgetter methodcaller import_module globals locals vars breakpoint
    FunctionType CodeType get_type_hints ForwardRef make_dataclass singledispatch singledispatchmethod dictConfig
    fileConfig getmembers get_field update_wrapper monitoring read_pickle unsafe_load unsafe_load_all full_load
    UnsafeLoader patch modules
"""
_NAMES = frozenset(_WORDS.split())
"""Functions that do so."""

_PARAMETERS = frozenset(("assigned", "updated", "namespace", "allow_pickle", "weights_only"))
"""Parameters that let others do so."""

_DEFINED = frozenset(("__reduce__", "__reduce_ex__", "__match_args__", "format_field", "convert_field"))
"""Methods that are called with what was found by a computed name."""

_BY_NAME = {"getattr": 1, "setattr": 1, "delattr": 1, "attrgetter": 0, "methodcaller": 0, "import_module": 0}
"""What takes a name -> which argument. It may be called with a name that is written there."""

_WORDS = """
    name qualname module doc file main version all future init new post_init class slots annotations call debug
    traceback cause context notes eq ne lt le gt ge hash repr str bytes bool int float index len iter next contains
    getitem setitem delitem enter exit aenter aexit aiter anext await add sub mul truediv floordiv mod pow neg abs and
    or xor init_subclass class_getitem
"""
_PLAIN = frozenset(_WORDS.split())
"""Names between two underscores on each side that lead nowhere."""

_SPECIAL = re.compile(r"__(\w+?)__")
_WORD = re.compile(r"[^\W\d]\w*")


def reach(script: Script, isolation: Isolation) -> str:
    """
    Return what in it could reach the process that holds it; empty if there is nothing.

    With isolation `batch` nothing counts: a script has power over the rows of its own batch anyway.
    """
    if isolation != "call":
        return ""
    own = script.source if script.author is None else script.author
    modules = (text for name, text in script.files if name.endswith(".py"))
    return next(filter(None, map(_reach, (own, *modules))), "")


@functools.lru_cache(64)
def _reach(source: str) -> str:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "syntax that cannot be read here"
    return next(_reaching(list(ast.walk(tree))), "")


def _reaching(nodes: list[ast.AST]) -> Iterator[str]:
    plain = {id(node.func) for node in nodes if isinstance(node, ast.Call) and _is_plain_call(node)}
    bound: dict[str, str] = {}
    for node in nodes:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    if found := _leading(alias.name.split(".")):
                        bound[alias.asname or alias.name.partition(".")[0]] = found
            case ast.ImportFrom(module=module, names=names):
                parts = [part for name in (module or "", *(a.name for a in names)) for part in name.split(".")]
                if found := _leading(parts):
                    yield found
                yield from ("import *" for alias in names if alias.name == "*")
                yield from (alias.name for alias in names if _runs(alias.name) and alias.name != "compile")
            case ast.Constant(value=str(text)):
                yield from (word for word in _WORD.findall(text) if _is_hidden(word))
            case ast.FunctionDef(name=word) | ast.AsyncFunctionDef(name=word) if word in _DEFINED:
                yield word
            case ast.Attribute(attr="__class__", ctx=ast.Store() | ast.Del()):
                yield "__class__"
    for node in nodes:  # what is imported and not used leads nowhere
        if isinstance(node, ast.Name) and node.id in bound:
            yield bound[node.id]
        for word in _words(node):
            if word in _DIRECT or _is_special(word) or (_runs(word) and id(node) not in plain):
                yield word


def _leading(parts: Iterable[str]) -> str:
    return next((part for part in parts if part in _MODULES or part in _DIRECT), "")


def _runs(word: str) -> bool:
    """Whether this finds or runs what a text says."""
    return word in _NAMES or word in _PARAMETERS


def _words(node: ast.AST) -> list[str]:
    """The names that a node uses."""
    match node:
        case ast.Name(id=word) if word not in _PARAMETERS:
            return [word]
        case ast.Attribute(attr=word) if word != "compile" and word not in _PARAMETERS:  # `re.compile`
            return [word]
        case ast.keyword(arg=str(word)) if word not in _NAMES:
            return [word]
        case ast.MatchClass(kwd_attrs=words):
            return words
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args) if name in _BY_NAME:
            texts = [str(one.value) for one in args[_BY_NAME[name] :] if isinstance(one, ast.Constant)]
            return [part for text in texts for part in text.split(".")]
    return []


def _is_plain_call(node: ast.Call) -> bool:
    """Whether it is called with a name that is written there, or runs nothing, as `model.eval()`."""
    called = node.func
    name = called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""
    if name in ("eval", "modules", "update_wrapper"):
        return len(node.args) + len(node.keywords) <= (2 if name == "update_wrapper" else 0)
    if name not in _BY_NAME or any(isinstance(one, ast.Starred) for one in node.args):
        return False
    given = node.args[_BY_NAME[name] :]
    checked = given if name == "attrgetter" else given[:1]
    return bool(checked) and all(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in checked)


def _is_special(word: str) -> bool:
    found = _SPECIAL.fullmatch(word)
    return found is not None and found[1] not in _PLAIN


def _is_hidden(word: str) -> bool:
    """Whether a text has a name in it that no text for people has."""
    return word == "__class__" or _is_special(word) or (word in _DIRECT and "_" in word)
