"""Regular expressions of RFC 9485, by what its grammar and its mapping to other languages say."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.evaluators import iregexp
from runner.evaluators.jsonpath import parse_path


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
    made = iregexp.compiled(pattern)
    assert made is not None
    assert [bool(made.fullmatch(text)) for text in (*whole, *not_whole)] == [True] * len(whole) + [False] * len(
        not_whole
    )


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
        *("a{99999999999999999999}", "(" * 5000 + ")" * 5000),
    ],
)
def test_what_is_none_matches_nothing(pattern: str) -> None:
    assert iregexp.compiled(pattern) is None


@settings(deadline=None)
@given(st.characters(exclude_categories=["Cs"]))
def test_each_character_is_in_its_category_alone(character: str) -> None:
    found = unicodedata.category(character)
    for name in (found, found[0]):
        for text, wanted in ((rf"\p{{{name}}}", True), (rf"\P{{{name}}}", False), (rf"[^\p{{{name}}}]", False)):
            made = iregexp.compiled(text)
            assert made is not None
            assert bool(made.fullmatch(character)) is wanted


@given(st.text(alphabet="ab[]()|*+?{},-^.\\pL1nd ", max_size=12), st.text(alphabet="ab1L- \n", max_size=6))
def test_no_pattern_raises(pattern: str, text: str) -> None:
    made = iregexp.compiled(pattern)
    assert made is None or made.search(text) is None or re.search(made, text)


def test_filters_of_a_path_match_by_it() -> None:
    rows = [{"name": "Ärzte"}, {"name": "ärzte"}, {"name": 1}, {}]
    for function, pattern, found in (
        ("match", r"\\p{Lu}.*", 1),
        ("search", r"\\p{L}r", 2),
        ("match", "rz", 0),
        ("search", r"\\d", 0),
    ):
        path = parse_path(f"output[?{function}(@.name, '{pattern}')]", trusted=True)
        assert len(path.value({"output": rows})) == found
