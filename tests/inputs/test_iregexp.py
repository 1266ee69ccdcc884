"""Regular expressions of RFC 9485, by what its grammar and its mapping to other languages say."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.core.errors import PathError
from runner.inputs.evaluators.paths import automaton, iregexp
from runner.inputs.evaluators.paths.automaton import Automaton
from runner.inputs.evaluators.paths.jsonpath import parse_path
from runner.inputs.evaluators.paths.rfc9535 import MAX_PLACES, FilterWork


def _work(pattern: str, text: str, *, whole: bool = True) -> tuple[bool, int]:
    """Whether the text matches, and the work that it took."""
    program = iregexp.compile_pattern(pattern)
    assert program is not None
    spent: list[int] = []
    found = Automaton(program, spent.append, whole=whole).matches(text)
    return found, sum(spent)


def _found(pattern: str, text: str, *, whole: bool = True) -> bool:
    return _work(pattern, text, whole=whole)[0]


@pytest.mark.parametrize(
    ("pattern", "whole", "not_whole"),
    [
        ("", [""], ["a"]),
        ("a.c", ["abc", "a\u2028c", "a\U0001f600c"], ["a\nc", "a\rc", "ac"]),
        ("(a|b)*", ["", "abba"], ["c"]),
        ("a|", ["a", ""], ["aa"]),
        ("a{2}", ["aa"], ["a", "aaa"]),
        ("a{2,}b?", ["aa", "aaaab"], ["a"]),
        ("a{1,2}", ["a", "aa"], ["aaa"]),
        (r"\p{Lu}\p{Ll}+", ["Äpfel", "Ärzte"], ["äpfel", "A1"]),
        (r"\P{L}+", ["12 %"], ["1a"]),
        (r"[\p{Nd}\-x]+", ["1-x", "٣"], ["y"]),
        (r"[^\p{L}a-c\n]", ["1", "\r"], ["b", "z", "\n"]),
        (r"[-a]", ["-", "a"], ["b"]),
        (r"[a-]", ["-", "a"], ["b"]),
        (r"[^-a]", ["b"], ["-", "a"]),
        ("[a&&b~~c||d]+", ["a&b~|"], ["e"]),
        ("^a$", ["a"], ["^a$", "a\n"]),
        ("[$^]+", ["^$"], ["a"]),
        (r"\(\)\*\+\-\.\?\[\\\]\^\{\|\}\n\r\t", ["()*+-.?[\\]^{|}\n\r\t"], ["()"]),
        ("a#b c", ["a#b c"], ["a"]),
    ],
)
def test_it_matches_as_the_rfc_has_it(pattern: str, whole: list[str], not_whole: list[str]) -> None:
    assert [text for text in (*whole, *not_whole) if _found(pattern, text)] == whole
    assert [text for text in whole if not _found(pattern, f"{text}", whole=False)] == []


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("b", "abc", True),
        ("^b", "abc", False),
        ("^b", "a\nb", False),
        ("b$", "abc", False),
        ("c$", "abc", True),
        ("^abc$", "abc", True),
        ("$", "abc", True),
        ("$^", "", True),
        ("$^", "a", False),
        ("a{3}", "aabaaab", True),
        ("a{3}", "aabaab", False),
        ("(ab|ba){2}c", "ababbac", True),
        ("(^a|b$)c?", "xa", False),
    ],
)
def test_it_finds_a_part_of_a_text(pattern: str, text: str, found: bool) -> None:
    assert _found(pattern, text, whole=False) is found


CATASTROPHIC = (
    *("(a*)*c", "(a+)+c", "([a-z]+)*1", "(.*)*x", "(a|a)*b", "(a|aa)+c", "(a{1,30}){1,30}b", "(a?){500}a{500}b"),
    *("(.*a){20}b", "((a*)*)*b", "(a|(a|(a|a)))*b"),
)


@pytest.mark.rotating("bounds of work and memory", "scripts")
@pytest.mark.parametrize("pattern", CATASTROPHIC)
@pytest.mark.parametrize("whole", [True, False])
def test_the_work_is_linear_in_the_text_whatever_the_pattern(pattern: str, whole: bool) -> None:
    """These take a time exponential in the text where all ways to match are tried one after another."""
    found, work = _work(pattern, "a" * 10_000, whole=whole)
    assert not found
    twice = _work(pattern, "a" * 20_000, whole=whole)[1]
    assert twice <= 2 * work
    assert work < MAX_PLACES


def test_what_a_text_takes_counts_as_work_of_the_path() -> None:
    rows = [{"name": "ab" * 400, "pattern": "(a|b)*c"}] * 500
    for pattern in ("'(a|b)*c'", "@.pattern"):
        path = parse_path(f"output[?match(@.name, {pattern})]", trusted=True)
        assert path.value({"output": rows[:100]}, FilterWork(10_000)) == []
        with pytest.raises(PathError, match="looks at more than 10,000 places"):
            path.value({"output": rows}, FilterWork(10_000))


def test_work_does_not_depend_on_rows_before() -> None:
    assert len({_work("(a|b)*a(a|b){8}", "abbabab" * 100, whole=False) for _ in range(3)}) == 1


def test_an_automaton_that_forgets_still_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(map(chr, range(0x20, 0x3000))) + "abbababb" * 50
    cases = [(pattern, whole) for pattern in ("(a|b)*a(a|b){6}", r".*\p{L}(a|b){9}") for whole in (True, False)]
    before = [_found(pattern, text, whole=whole) for pattern, whole in cases]
    monkeypatch.setattr(automaton, "_MAX_KEPT", 50)
    assert [_found(pattern, text, whole=whole) for pattern, whole in cases] == before == [False, True, True, True]


@pytest.mark.parametrize(
    "pattern",
    [
        "a{99999999999999999999}",
        "a{10001}",
        "(a{0,300}){0,300}",
        "((a{1,100}){1,100}){1,100}",
        "(a{5000})(a{5000})b{5000}",
    ],
)
def test_a_pattern_too_large_is_refused_in_words(pattern: str) -> None:
    with pytest.raises(PathError, match=r"the regular expression .* has more than 10,000 parts"):
        parse_path(f"output[?search(@, '{pattern}')]", trusted=True)
    by_row = parse_path("output[?search(@.text, @.pattern)]", trusted=True)
    with pytest.raises(PathError, match="has more than 10,000 parts"):
        by_row.value({"output": [{"text": "a", "pattern": pattern}]})


def test_a_long_pattern_of_a_row_is_refused_in_words() -> None:
    path = parse_path("output[?search('a', @)]", trusted=True)
    with pytest.raises(PathError, match="a regular expression has 10,001 characters"):
        path.value({"output": ["a" * 10_001]})


@pytest.mark.parametrize(
    "pattern",
    [
        *("*a", "a**", "a+?", "a++", "a{2}{3}", "(?:a)", "(?=a)", "(a", "a)", ")(", "|*", "(*a)"),
        *(r"\d", r"\w", r"\s", r"\b", r"\$", r"\/", r"\1", r"\u0041", "\\", "a{,2}", "a{", "a}", "{1}", "a{x}"),
        *(
            "[]",
            "[a",
            "a]",
            "[[a]]",
            "[a-b-c]",
            "[--a]",
            r"[\d]",
            "[z-a]",
            "[^]]",
            r"\p{Xx}",
            r"\p{L",
            r"\pL",
            r"\p{Ls}",
        ),
        *("a{2,1}", "^*", "(" * 5000 + ")" * 4999),
    ],
)
def test_what_is_none_matches_nothing(pattern: str) -> None:
    assert iregexp.compile_pattern(pattern) is None


@settings(deadline=None)
@given(st.characters(exclude_categories=["Cs"]))
def test_each_character_is_in_its_category_alone(character: str) -> None:
    found = unicodedata.category(character)
    for name in (found, found[0]):
        for text, wanted in ((rf"\p{{{name}}}", True), (rf"\P{{{name}}}", False), (rf"[^\p{{{name}}}]", False)):
            assert _found(text, character) is wanted


@given(st.text(alphabet="ab[]()|*+?{},-^.\\pL1nd ", max_size=12), st.text(alphabet="ab1L- \n", max_size=6))
def test_any_pattern_matches_or_is_refused(pattern: str, text: str) -> None:
    path = parse_path("output[?match(@.text, @.pattern) || search(@.text, @.pattern)]", trusted=True)
    try:
        found = path.value({"output": [{"text": text, "pattern": pattern}]})
    except PathError as error:
        assert "has more than 10,000 parts" in str(error)  # noqa: PT017
    else:
        assert not found or iregexp.compile_pattern(pattern) is not None


def test_filters_of_a_path_match_by_it() -> None:
    rows = [{"name": "Ärzte"}, {"name": "ärzte"}, {"name": 1}, {}]
    for function, pattern, found in (
        ("match", r"\\p{Lu}.*", 1),
        ("search", r"\\p{L}r", 2),
        ("match", "rz", 0),
        ("search", r"\\d", 0),
    ):
        path = parse_path(f"output[?{function}(@.name, '{pattern}')]", trusted=True)
        assert len(path.value({"output": rows}, FilterWork(10_000))) == found
