"""The right answers of rows: a reference in the form that outputs have, or an own output with full marks."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from statistics import fmean
from typing import Any, Literal, NamedTuple, TypeAlias

from runner.core.types import Categorical, Continuous, OutputConfig, Result
from runner.runs.audit.people import RIGHT_WORDS, WRONG_WORDS

EQUAL = 1e-9
_FENCE = re.compile(r"\A[\s\S]*?```\w*\n([\s\S]*?)\n?```[\s\S]*\Z")
_NOTHING = frozenset(("none", "n/a", "null", "nil", "nothing", "not applicable", "no answer", "unanswerable"))
_UNREAD = re.compile(r"(?i)un(parsed|parsable|parseable|known|readable|clear)|invalid|error|missing|empty|skip|^no[_ ]")
"""Labels of what could not be judged."""
_STYLE_MARKS = re.compile(r"[\s.,;:!?'\"()_\u2010-\u201d\u2212-]+")
_NEARLY_ALL, _HALF, _LEAST = 0.9, 0.5, 2
_EMPTY, _KEY = "empty", "key "
"""Kinds of answers: none where none is asked for, and the value of a key."""
KINDS, ROWS_OF_KIND = 6, 3
"""Texts are kinds, such as choices, where there are so few, each of so many rows."""
_NAMES = 20
"""Values of a reference that are looked for in an output."""
_PARTS, _LEARNED = 6, 3
"""Leaves of a reference, and forms of outputs, that are tried."""


class Form(NamedTuple):
    """How outputs write an answer."""

    name: str
    """In words; empty where they write it as it is."""
    write: Callable[[Any], Any]


AS_IS = Form("", lambda value: value)
JSON = Form("JSON", lambda value: json.dumps(value, ensure_ascii=False))
IN_FENCE = Form("JSON in a fence", lambda value: f"```json\n{json.dumps(value, ensure_ascii=False)}\n```")
LINES = Form("a line each", lambda value: "\n".join(map(str, value)))
COMMAS = Form("commas between", lambda value: ", ".join(map(str, value)))


def around(before: str, after: str) -> Form:
    """Return the form with some text before an answer and after it."""
    return Form(f"{before}…{after}", lambda value: f"{before}{value}{after}")


_USUAL = tuple(
    around(*texts)
    for texts in (
        ("Answer: ", ""),
        ("The answer is ", "."),
        ("#### ", ""),
        ("\\boxed{", "}"),
        ("<answer>", "</answer>"),
        ("```\n", "\n```"),
    )
)
"""Forms that a grader may want, where no output of the dataset shows one."""


class Answer(NamedTuple):
    """An answer, and how it is written."""

    value: Any
    form: Form = AS_IS
    kind: str = ""
    """What of the reference it is; answers of a kind are tried in all rows."""
    own: bool = False
    """It is the row's own output: the reference is no answer, but tests or rules."""

    @property
    def output(self) -> Any:
        """It, as outputs write it."""
        return self.form.write(self.value)


_NO_ANSWER = Answer(None, kind="none")


@dataclass
class AnswerAttempt:
    """A row's own output, and what may be its right answers, each with its result."""

    own: tuple[Any, Result]
    tried: list[tuple[Answer, Result]]
    wrong: dict[str, Result] = field(default_factory=dict)
    """By kind: another row's reference in a form."""


class Marks:
    """
    How good results are: by their score, or by their label where a grader gives labels alone.

    Args:
        config: The grader's first output, if it is declared.
        right: Results of what may be right answers, by the kind of these.
        others: Other results that show which labels there are.
        lower: A lower score is taken for the better one, as nobody says which is.
    """

    def __init__(
        self,
        config: OutputConfig | None,
        right: Sequence[tuple[str, Result]] = (),
        others: Iterable[Result] = (),
        *,
        lower: bool = False,
    ) -> None:
        self.config, self.lower = config, lower
        self.sign = -1 if lower or (config is not None and config.direction == "minimize") else 1
        every = [*(one for _, one in right), *others]
        self.by_label = not any(one.score is not None for one in every) and any(one.label is not None for one in every)
        self._full = _best_labels(right, every) if self.by_label else frozenset()

    @property
    def unclear(self) -> bool:
        """True where labels do not say what is right."""
        return self.by_label and not self._full

    def take_only_label(self, results: Iterable[Result]) -> None:
        """Take the one label that all results have, where labels do not say what is right: all are equal then."""
        labels = frozenset(one.label for one in results if one.outcome == "scored" and one.label is not None)
        if self.unclear and len(labels) == 1:
            self._full = labels

    def goodness(self, result: Result) -> float | None:
        """Return a figure that is higher where a result is better; None where there is none."""
        if result.outcome != "scored":
            return None
        if self.by_label:
            return None if result.label is None or not self._full else float(result.label in self._full)
        return None if result.score is None else result.score * self.sign

    @property
    def best(self) -> float | None:
        """The best that there can be, if the output config says or labels do."""
        config = self.config
        if isinstance(config, Categorical):
            scores = [score * self.sign for score in config.labels.values() if score is not None]
            return max(scores, default=None)
        if isinstance(config, Continuous):
            bound = config.lower_bound if self.sign < 0 else config.upper_bound
            return None if bound is None else bound * self.sign
        return 1.0 if self.by_label else None


def _is_distance(attempts: Sequence[AnswerAttempt]) -> bool:
    """Say whether references score lower than all outputs that have nothing of them."""
    pairs = [
        (own.score, right.score)
        for (output, own), (answer, right) in ((one.own, one.tried[0]) for one in attempts if one.tried)
        if own.score is not None and right.score is not None and plain(answer.output) not in plain(output)
        if not answer.kind.startswith(_KEY)
    ]
    return len(pairs) > _LEAST and all(own > right + EQUAL for own, right in pairs)


def _best_labels(right: Sequence[tuple[str, Result]], every: Sequence[Result]) -> frozenset[str]:
    """The labels that words call good; else the one that right answers get on nearly all rows."""
    seen = {one.label for one in every if one.label is not None}
    if good := {label for label in seen if label.casefold() in RIGHT_WORDS}:
        return frozenset(good)
    by_kind: dict[str, Counter[str]] = {}
    for kind, one in right:
        by_kind.setdefault(kind, Counter()).update([] if one.label is None else [one.label])
    for labels in by_kind.values():
        for label, count in labels.most_common(1):
            bad = label.casefold() in WRONG_WORDS or _UNREAD.search(label)
            if count >= _NEARLY_ALL * labels.total() and not bad:
                return frozenset((label,))
    return frozenset()


def plain(value: Any) -> str:
    """Return what is left of a value where case, marks and spaces do not count."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return re.sub(r"\W", "", text.casefold())


def alike(one: Any, other: Any) -> bool:
    """Say whether two texts differ in what they say, and are equal to who drops case, accents, marks or scripts."""
    if not (isinstance(one, str) and isinstance(other, str)) or _styled(one) == _styled(other):
        return False
    return careless(one) == careless(other)


def careless(text: str) -> str:
    """Return what is left of a text where case, accents, marks and other scripts are dropped."""
    return re.sub(r"[^a-z0-9]", "", unicodedata.normalize("NFKD", text.casefold()))


def _styled(text: str) -> str:
    """What a text says where only the first capital letter of a word, and marks between words, are style."""
    try:
        return repr(float(text))
    except ValueError:
        words = [word.lower() if word[1:].islower() or len(word) == 1 else word for word in text.split()]
        return _STYLE_MARKS.sub("", "".join(word.lower() if _is_shout(word) else word for word in words))


def _is_shout(word: str) -> bool:
    return word.isalpha() and word.isupper() and len(word) > 4


def parse_tree(value: Any) -> Any:
    """Return a list or an object, also one that is written as JSON text; anything else as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            tree = json.loads(value)
        except (ValueError, RecursionError):
            return value
        return tree if isinstance(tree, dict | list) else value
    return value


def strip_fence(value: Any) -> Any:
    """Return a text without the code fence around it."""
    return _FENCE.sub(r"\1", value) if isinstance(value, str) else value


def are_kinds(texts: Iterable[str]) -> bool:
    """Say whether there are few texts, and several times each: classes, labels or choices."""
    counts = Counter(texts)
    return 1 < len(counts) <= KINDS and len(counts) * ROWS_OF_KIND <= counts.total()


def leaves(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield each value of a tree that is no list and no object, with the keys that lead there."""
    if isinstance(tree, dict | list):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from leaves(value, (*path, key))
    else:
        yield path, tree


def form_of(output: Any, reference: Any) -> str | None:
    """
    Return the words around the values of a reference, if an output says all of them in their order.

    A list is one place, whatever its length.
    """
    names = [str(value) for _, value in islice(leaves(parse_tree(reference)), _NAMES)]
    if not isinstance(output, str) or not any(names):
        return None
    parts, rest = [], output
    for name in names:
        found = re.search(rf"(?<![\w.]){re.escape(name)}(?!\w|\.\d)", rest)
        if found is None:
            return None
        parts.append(rest[: found.start()])
        rest = rest[found.end() :]
    return re.sub(r"\0(?:[\s,;*-]+\0)+", "\0", "\0".join((*parts, rest)))


def is_empty(reference: Any) -> bool:
    """Say whether a reference has no value: it is empty, or a tree without one."""
    tree = parse_tree(reference)
    return not any(leaves(tree)) if isinstance(tree, dict | list) else tree is None or not plain(tree)


def says_nothing(reference: Any) -> bool:
    """Say whether a reference says that there is no answer."""
    return is_empty(reference) or (isinstance(reference, str) and reference.strip(" .").casefold() in _NOTHING)


Shape: TypeAlias = Literal["text", "value", "JSON"]
"""What outputs are: texts, values such as numbers and objects, or the JSON text of lists and objects."""


def shape_of(outputs: Sequence[Any]) -> Shape:
    """Return what most outputs are."""
    some = [one for one in outputs if one is not None and one != ""]
    if sum(not isinstance(one, str) for one in some) * 2 > len(some):
        return "value"
    trees = sum(isinstance(parse_tree(strip_fence(one)), dict | list) for one in some)
    return "JSON" if trees * 2 > len(some) else "text"


def candidates(reference: Any, shape: Shape) -> Iterator[Answer]:
    """Yield what may be right answers of a row by its reference, the likeliest first, in the shape of outputs."""
    tree = parse_tree(reference)
    if shape == "value" or (isinstance(reference, str) and tree is reference):
        yield Answer(tree)
    elif not isinstance(tree, dict | list):
        yield Answer(json.dumps(tree))
        if isinstance(tree, bool):
            yield Answer(str(tree), kind="bool")
            yield Answer("yes" if tree else "no", kind="word")
    elif shape == "JSON":
        yield Answer(tree, JSON, "JSON")
    else:
        whole = isinstance(tree, list)
        values = [one for one in leaves(tree) if one[1] is not None and (len(one[0]) == 1 or not whole)]
        for path, value in values[:_PARTS]:
            yield Answer(str(value), kind="" if whole else _KEY + ".".join(map(str, path)))
        if whole and len(values) == len(tree):
            yield Answer(tree, LINES, "lines")
            yield Answer(tree, COMMAS, "commas")
        if is_empty(tree):
            yield Answer("", kind=_EMPTY)


class AnswerChoice:
    """
    The right answers of rows, chosen by how good what may be one was.

    Args:
        attempts: By row.
        config: The grader's first output, if it is declared.
    """

    def __init__(self, attempts: Sequence[AnswerAttempt], config: OutputConfig | None) -> None:
        self._attempts = attempts
        right = [(answer.kind, result) for one in attempts for answer, result in one.tried]
        says = config is not None and config.direction != "none"
        self.marks = Marks(config, right, (one.own[1] for one in attempts), lower=not says and _is_distance(attempts))
        every = [good for one in attempts for good in self._goods(one)]
        self._worst = min(every, default=0.0)
        self._top = max(every, default=0.0) if self.marks.best is None else self.marks.best

    def _goods(self, one: AnswerAttempt) -> list[float]:
        every = (self.marks.goodness(result) for result in (one.own[1], *(result for _, result in one.tried)))
        return [good for good in every if good is not None]

    def _is_full(self, result: Result) -> bool:
        """Say whether a result is the best that there can be, or that was seen."""
        good = self.marks.goodness(result)
        return good is not None and good >= self._top - EQUAL

    def _of_kind(self, one: AnswerAttempt, kind: str) -> Answer | None:
        """The first answer of a kind with full marks; without a bound these may differ from row to row."""
        most = max(self._goods(one), default=0.0)
        by_row = self.marks.best is None and most > self._worst + EQUAL
        for answer, result in one.tried:
            good = self.marks.goodness(result)
            if answer.kind == kind and good is not None and good >= (most if by_row else self._top) - EQUAL:
                return answer
        return None

    def _share(self, kind: str) -> float:
        """The share of rows where a kind of answer has full marks."""
        return fmean(any(self._of_kind(one, each) for each in (kind, _EMPTY)) for one in self._attempts)

    def _takes_all(self, kind: str) -> bool:
        """Say whether other rows' references have full marks as well in a form: it is none that the grader wants."""
        every = [self._is_full(one.wrong[kind]) for one in self._attempts if kind in one.wrong]
        return bool(every) and fmean(every) >= _HALF

    @property
    def _kind(self) -> str | None:
        """The kind of answer that has full marks on most rows, and on nearly all, if there is one."""
        kinds = dict.fromkeys(answer.kind for one in self._attempts for answer, _ in one.tried if answer.kind != _EMPTY)
        shares = {kind: part for kind in kinds if (part := self._share(kind)) >= _NEARLY_ALL}
        return max(
            (kind for kind in shares if not self._takes_all(kind) and self._is_said(kind) and self._is_answer(kind)),
            key=lambda kind: shares[kind],
            default=None,
        )

    def _is_said(self, kind: str) -> bool:
        """Say whether outputs with full marks say a key's value: it may be a rule that no output breaks else."""
        full = [one for one in self._attempts if self._is_full(one.own[1])]
        pairs = ((answer, one.own[0]) for one in full for answer, _ in one.tried if answer.kind == kind)
        said = [(name := plain(answer.value)) != "" and name in plain(output) for answer, output in pairs]
        return not kind.startswith(_KEY) or (len(said) >= _LEAST and fmean(said) >= _HALF)

    def _is_answer(self, kind: str) -> bool:
        """Say whether elements of lists are answers each: of most lists of several, one alone has full marks."""
        several = [one for one in self._attempts if sum(answer.kind == "" for answer, _ in one.tried) > 1]
        return kind != "" or not several or fmean(self._of_kind(one, "") is not None for one in several) > _HALF

    def forms(self) -> list[tuple[int, Answer, bool]]:
        """Return answers in forms that the grader may want: the row's place, the answer, and whether it is wrong."""
        if self._kind is not None:
            return []
        first = [one.tried[0][0] if one.tried else _NO_ANSWER for one in self._attempts]
        forms = [IN_FENCE] if all(answer.form is JSON for answer in first) else self._text_forms(first)
        found = []
        for at, answer in enumerate(first):
            if answer.kind not in ("", JSON.name):
                continue
            other = next((one for one in first if plain(one.value) != plain(answer.value)), None)
            for form in forms:
                found.append((at, Answer(answer.value, form, form.name), False))
                found += [] if other is None else [(at, Answer(other.value, form, form.name), True)]
        return found

    def _text_forms(self, first: Sequence[Answer]) -> list[Form]:
        """Those of outputs with full marks that name their reference; else usual ones."""
        names = Counter[tuple[str, str]]()
        for one, answer in zip(self._attempts, first, strict=True):
            output, result = one.own
            if self._is_full(result) and isinstance(output, str) and isinstance(answer.value, str) and answer.value:
                before, name, after = output.rpartition(answer.value)
                if name and (before or after):
                    names[before.rpartition("\n")[2], after.partition("\n")[0]] += 1
        return [around(*texts) for texts, _ in names.most_common(_LEARNED)] or [*_USUAL]

    def add(self, at: int, answer: Answer, wrong: bool, result: Result) -> None:
        """Take the result of an answer in a form."""
        if wrong:
            self._attempts[at].wrong[answer.kind] = result
        else:
            self._attempts[at].tried.append((answer, result))

    def answers(self) -> list[tuple[Answer, Result] | None]:
        """
        Return the right answer of each row with its result, or None where there is none.

        Where no kind of answer has full marks on nearly all rows, references are taken for answers if they may be, and
        else the rows' own outputs with full marks.
        """
        kind = self._kind
        return [self._answer(one, self._fallback() if kind is None else kind) for one in self._attempts]

    def _fallback(self) -> str | None:
        first = self._attempts[0].tried[0][0] if all(one.tried for one in self._attempts) else _NO_ANSWER
        own = sum(self._is_full(one.own[1]) for one in self._attempts)
        lists = any(answer.form is LINES for one in self._attempts for answer, _ in one.tried)
        answers = first.kind == "" and not lists and not self._are_labels()
        answers |= first.form is JSON or isinstance(first.value, dict | list)
        some = self._share(first.kind) > max(1 - _NEARLY_ALL, own / len(self._attempts) - EQUAL)
        return first.kind if answers and (some or own < _LEAST) else None

    def _are_labels(self) -> bool:
        """Say whether references are of few kinds, which few outputs with full marks say: they tell what is right."""
        full = [(one.own[0], one.tried[0][0].value) for one in self._attempts if self._is_full(one.own[1])]
        said = [plain(value) in plain(output) for output, value in full]
        return are_kinds(plain(value) for _, value in full) and fmean(said) < 1 - _NEARLY_ALL

    def _answer(self, one: AnswerAttempt, kind: str | None) -> tuple[Answer, Result] | None:
        if kind is None:
            output, result = one.own
            return (Answer(output, own=True), result) if self._is_full(result) else None
        full = self._of_kind(one, kind) or self._of_kind(one, _EMPTY)
        return next(
            ((each, result) for each, result in one.tried if (each is full if full else each.kind == kind)), None
        )
