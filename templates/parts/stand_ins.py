"""Stand-ins for a program, which tests hold: they list what is asked of it, and give the answers that are known."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from typing import Any

from templates.parts.plain_data import decode_plain, encode_plain
from templates.parts.unknown import Unknown

QUESTIONS_MAX = 5_000
"""Things that tests may ask in a row."""
STEPS = 100_000
"""Uses of answers that are not known yet, after which the tests wait for these."""


STEERING = (
    *(StopIteration, StopAsyncIteration, GeneratorExit, AttributeError, KeyError, IndexError, TypeError),
    *(SystemExit, KeyboardInterrupt),
)
"""Exceptions by which Python itself goes on: it ends a loop, or takes a default, where nobody asks for them by name."""


class Stop(BaseException):
    """Ends a run of the tests: it has asked enough, or its verdict stands."""


class Questions:
    """What the tests of this run ask, in order, and the answers to those that were asked before in the same order."""

    def __init__(self, known: list[Any], reply: Any) -> None:
        reply = reply if isinstance(reply, dict) else {}
        answers, classes = reply.get("answers"), reply.get("classes")
        self._known = known
        self._answers = answers if isinstance(answers, list) else []
        self._classes = classes if isinstance(classes, dict) else {}
        self._steps = 0
        self.asked: list[dict[str, Any]] = []
        self.missing = False
        """Whether an answer is not known. From then on, what the tests see is made up, and proves nothing."""
        self.errors: dict[str, type[Exception]] = {}
        """The program's classes that the tests catch."""
        self.names: Callable[[], set[str]] = set
        """The names that the tests use."""
        self.spoilt = ""
        """Why the answers are not believed, if they are not: no test may overlook it."""
        self.refused = ""
        """Why the tests cannot be run, if they cannot."""
        self.waits_for_chosen = False
        """Whether the first answer that is not known is one of an object that the program returned."""
        self.printed: list[str] = []
        self.last = ""
        """The last thing that was asked, and its answer, in words."""

    def ask(
        self,
        question: dict[str, Any],
        given: tuple[Any, ...] = (),
        named: dict[str, Any] | None = None,
        receiver: Own | None = None,
    ) -> Any:
        """The answer, or what stands for it as long as it is not known. Raises what the program raised."""
        if "apply" in question:
            receiver = given[0]
        # Where an answer of the program's choice is asked, no limit may take the row out of the count.
        chosen = receiver is not None and not object.__getattribute__(receiver, "_by_name")
        try:
            if given:
                question["args"] = [self._encoded(one, chosen) for one in given]
            if named:
                question["named"] = {name: self._encoded(one, chosen) for name, one in named.items()}
        except _UnknownError:
            return self.unknown()
        place = len(self.asked)
        self.asked.append(question)
        if len(self.asked) > QUESTIONS_MAX:
            if self.missing:  # made-up answers may have no end
                self.asked.pop()
            else:
                self._refuse(f"the tests ask the program more than {QUESTIONS_MAX} things", chosen)
            raise Stop
        if not self.missing:
            self.waits_for_chosen = chosen
        if self.missing or place >= len(self._known) or self._known[place] != question:
            return self.unknown()
        if place >= len(self._answers) or not isinstance(self._answers[place], dict):
            self.spoilt = "it did not answer all that was asked"
            raise Stop
        return self._answered(question, self._answers[place], given, named or {})

    def unknown(self) -> Any:
        """What stands for an answer. Raises Stop when the tests go on for too long without it."""
        self.missing = True
        self._steps += 1
        if self._steps > STEPS:
            raise Stop
        return Unknown(self.unknown)

    def _answered(self, question: Any, answer: Any, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        words = [*map(_short, given), *(f"{name}={_short(one)}" for name, one in named.items())]
        said = f"{question.get('name') or question.get('apply')}({', '.join(words)})"
        if isinstance(printed := answer.get("printed"), str):
            self.printed.append(printed)
            sys.stdout.write(printed)
        if "raised" in answer:
            error = self._error(answer["raised"], question)
            self.last = f"{said} raised {type(error).__name__}: {_short(str(error))}"
            raise error
        try:
            value = self._decoded(answer.get("value"))
            for place, now in answer.get("changed", {}).items():
                _replace(given[int(place)], self._decoded(now))
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            self.spoilt = "it sent an answer that is no value"
            raise Stop from None
        self.last = f"{said} returned {_short(value)}"
        return value

    def _error(self, raised: Any, question: Any) -> BaseException:
        """
        As an exception of the first built-in class that it is one of, and of those that the tests catch by name.

        One that would steer the tests is of another class, unless they name it: `all(map(f, …))` would hold where `f`
        raises StopIteration.
        """
        raised = raised if isinstance(raised, dict) else {}
        names = [name for name in raised.get("classes", ()) if isinstance(name, str)]
        known = [found for name in names if isinstance(found := getattr(builtins, name, None), type)]
        known = [one for one in known if issubclass(one, BaseException)]
        wanted = self.names() if any(issubclass(one, STEERING) for one in known) else set()
        expected = _EXPECTED.get("get" if question.get("get") else str(question.get("apply")))
        plain = (one for one in known if not issubclass(one, STEERING) or one is expected or one.__name__ in wanted)
        base = next(plain, Exception)
        own = [self.errors[name] for name in names if name in self.errors]
        line = f" (line {raised['line']})" if isinstance(raised.get("line"), int) else ""
        text = str(raised.get("text", ""))[:1000]
        name = names[0] if names and names[0].isidentifier() else "Exception"
        try:
            error: BaseException = type(name, (*own[:1], base) if own else (base,), {})(text)
        except TypeError:  # such as UnicodeDecodeError, which wants more than a text
            error = type(name, (*own[:1], Exception) if own else (Exception,), {})(text)
        error.__notes__ = [line]
        return error

    def _refuse(self, why: str, chosen: bool) -> None:
        if chosen:
            self.spoilt = f"{why}, by an object of its own that it returned"
        else:
            self.refused = why

    def _encoded(self, value: Any, chosen: bool) -> Any:
        return encode_plain(value, lambda one: self._sent(one, chosen))

    def _sent(self, value: Any, chosen: bool) -> Any:
        kind = type(value)
        if kind is Unknown:
            raise _UnknownError
        if kind is Own:
            return object.__getattribute__(value, "_sign")
        if kind is ProgramName:
            return {"own": "program", "name": object.__getattribute__(value, "_name")}
        name = getattr(value, "__name__", None)
        if isinstance(name, str) and getattr(builtins, name, None) is value:
            return {"own": "builtin", "name": name}
        what = "a function" if callable(value) else f"an object of the class {kind.__name__}"
        self._refuse(f"the tests give the program {what}; it runs apart from them: only plain values go to it", chosen)
        raise Stop

    def _decoded(self, value: Any) -> Any:
        return decode_plain(value, self._received)

    def _received(self, value: dict[str, Any]) -> Any:
        if type(value["own"]) is not int:
            raise ValueError("no number of an object")
        about = self._classes.get(value["class"])
        about = about if isinstance(about, dict) else {}
        sign = {"own": value["own"], "class": str(value["class"])}
        return Own(self, sign, list(about.get("bases", ())), frozenset(map(str, about.get("methods", ()))))


class _UnknownError(Exception):
    pass


_EXPECTED = {"get": AttributeError, "next": StopIteration, "len": TypeError}
"""By what is asked of an object of the program's: how it says that there is none."""


def _short(value: Any) -> str:
    return repr(value)[:200]


def _replace(place: Any, value: Any) -> None:
    """An argument that the program changed; only into more of its own kind."""
    if type(place) is not type(value):
        raise ValueError("an argument changed its class")
    if isinstance(place, list | bytearray):
        place[:] = value
    elif isinstance(place, dict | set):
        place.clear()
        place.update(value)


class ProgramName:
    """A name of the program: a function, a class, a value. It is called there."""

    def __init__(self, questions: Questions, name: str) -> None:
        self._questions = questions
        self._name = name

    def __call__(self, *given: Any, **named: Any) -> Any:
        made = self._questions.ask({"of": None, "name": self._name}, given, named)
        # A class: that its objects are no plain values is known from the tests.
        return _by_name(made) if self._name[:1].isupper() else made

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _by_name(self._questions.ask({"of": None, "name": f"{self._name}.{name}", "get": True}))

    def __instancecheck__(self, value: Any) -> bool:
        return type(value) is Unknown or (type(value) is Own and self._name in object.__getattribute__(value, "_bases"))


class Own:
    """
    An object of a class of the program's own, which stays there.

    It equals nothing but what the program itself made, and operators between it and plain values are refused: the
    program would be told what is expected, and could say yes.
    """

    def __init__(self, questions: Questions, sign: dict[str, Any], bases: list[str], methods: frozenset[str]) -> None:
        own = {"_ask": questions.ask, "_sign": sign, "_bases": bases, "_methods": methods, "_by_name": False}
        for name, value in own.items():
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        ask, sign = object.__getattribute__(self, "_ask"), object.__getattribute__(self, "_sign")
        if name in object.__getattribute__(self, "_methods"):
            return lambda *given, **named: ask({"of": sign, "name": name}, given, named, self)
        return ask({"of": sign, "name": name, "get": True}, receiver=self)

    def __setattr__(self, name: str, value: Any) -> None:
        self._ask({"apply": "setattr"}, (self, name, value))

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self._ask({"apply": "call"}, (self, *given), named)

    def __eq__(self, other: object) -> bool:
        if type(other) is Unknown:
            return True
        return type(other) is Own and bool(self._ask({"apply": "eq"}, (self, other)))

    def __hash__(self) -> int:
        return hash(object.__getattribute__(self, "_sign")["own"])

    def __repr__(self) -> str:
        return f"<an object of the program's class {object.__getattribute__(self, '_sign')['class']}>"

    def __str__(self) -> str:
        return str(self._ask({"apply": "str"}, (self,)))

    def __bool__(self) -> bool:
        return bool(self._ask({"apply": "bool"}, (self,)))

    def __len__(self) -> int:
        return int(self._ask({"apply": "len"}, (self,)))

    def __iter__(self) -> Any:
        return iter(self._ask({"apply": "list"}, (self,)))

    def __next__(self) -> Any:
        return self._ask({"apply": "next"}, (self,))

    def __getitem__(self, key: Any) -> Any:
        return self._ask({"apply": "getitem"}, (self, key))

    def __setitem__(self, key: Any, value: Any) -> None:
        self._ask({"apply": "setitem"}, (self, key, value))

    def __delitem__(self, key: Any) -> None:
        self._ask({"apply": "delitem"}, (self, key))

    def __neg__(self) -> Any:
        return self._ask({"apply": "neg"}, (self,))

    def __enter__(self) -> Any:
        return self._ask({"apply": "enter"}, (self,))

    def __exit__(self, *error: object) -> None:
        self._ask({"apply": "exit"}, (self,))


def _by_name(value: Any) -> Any:
    """What the tests name, and the program cannot choose to return."""
    if type(value) is Own:
        object.__setattr__(value, "_by_name", True)
    return value


def _between(name: str) -> Callable[[Any, Any], Any]:
    def applied(self: Any, other: Any) -> Any:
        if type(other) is Unknown:
            return other
        return self._ask({"apply": name}, (self, other)) if type(other) is Own else NotImplemented

    return applied


for _name in ("lt", "le", "gt", "ge", "add", "sub", "mul", "truediv", "floordiv", "mod", "and_", "or_", "xor"):
    setattr(Own, f"__{_name.strip('_')}__", _between(_name))
