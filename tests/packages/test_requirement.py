"""Requirements come from strangers' scripts: what an installer would follow is refused before it sees it."""

from __future__ import annotations

import pytest

from sandboxes.errors import UnsupportedConfigError
from sandboxes.packages import normalize_requirements
from sandboxes.packages.requirement import MAX_CHARS, MAX_REQUIREMENTS, name_of


@pytest.mark.parametrize(
    ("line", "normal"),
    [
        ("scikit-learn", "scikit-learn"),
        (" Scikit_Learn >= 1.5 , < 2 ", "scikit-learn<2,>=1.5"),
        ("uvicorn[Standard,extra_b]==0.30", "uvicorn[extra-b,standard]==0.30"),
        ("tomli; python_version<'3.11'", 'tomli ; python_version < "3.11"'),
        ("numpy ~=2.0", "numpy~=2.0"),
        ("torch==2.5.1+cpu", "torch==2.5.1+cpu"),
        ("zope.interface", "zope-interface"),
        ("numpy; os_name == 'a\"'", "numpy ; os_name == 'a\"'"),
    ],
)
def test_names_extras_versions_and_markers_in_one_form(line: str, normal: str) -> None:
    assert normalize_requirements([line]) == (normal,)
    assert normalize_requirements([normal]) == (normal,)


def test_each_once_in_the_order_given() -> None:
    assert normalize_requirements(["b", "A>1", "B", "a>1"]) == ("b", "a>1")


def test_the_name_of_one() -> None:
    assert name_of("uvicorn[standard]==0.30") == "uvicorn"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "is empty"),
        ("   ", "is empty"),
        ("-r /etc/hostname", "option"),
        ("-e .", "option"),
        ("--index-url http://index.example.org/simple", "option"),
        ("--find-links=/tmp", "option"),
        ("-", "option"),
        ("x @ https://files.example.org/x-1.0-py3-none-any.whl", "direct reference"),
        ("x@file:///etc/passwd", "direct reference"),
        ("x @ ./x", "direct reference"),
        ("https://files.example.org/x-1.0.tar.gz", "direct reference"),
        ("git+https://git.example.org/x", "version control"),
        ("x @ git+ssh://git@git.example.org/x", "version control"),
        ("hg+http://hg.example.org/x", "version control"),
        ("./x", "is a path"),
        ("../x", "is a path"),
        ("~/x", "is a path"),
        ("/opt/x", "is a path"),
        ("folder/x", "is a path"),
        ("folder\\x", "is a path"),
        ("x-1.0-py3-none-any.whl", "is a path"),
        ("x-1.0.tar.gz", "is a path"),
        ("x.ZIP", "is a path"),
        ("x.zip ; python_version > '3'", "is a path"),
        ("numpy\n-r /etc/hostname", "line breaks"),
        ("numpy\r--index-url x", "line breaks"),
        ("numpy\x00", "control characters"),
        ("numpy\x1b[31m", "control characters"),
        ("numpy\u2028", "line breaks"),
        ("numpy\ud800", "control characters"),
        ("numpy # newest", "character that is not allowed in requirements"),
        ("${HOME}", "character that is not allowed in requirements"),
        ("numpy; python_version > '3' # '\\", "character that is not allowed in requirements"),
        ("numpy --hash=sha256:00", "is not a requirement"),
        ("numpy scipy", "is not a requirement"),
        ("numpy>=", "is not a requirement"),
        ("numpy; import os", "is not a requirement"),
        ("[extra]", "is not a requirement"),
        ("x" * (MAX_CHARS + 1), f"more than {MAX_CHARS} characters"),
        ("x;" + "(" * (MAX_CHARS - 10), "is not a requirement"),
    ],
)
def test_everything_else_is_refused_in_one_line_that_names_it(line: str, why: str) -> None:
    with pytest.raises(UnsupportedConfigError) as caught:
        normalize_requirements(["numpy", line], "script.py, line 3")
    message = str(caught.value)
    assert why in message
    assert message.startswith("script.py, line 3: ")
    assert "write the name" in message
    assert message.isprintable()
    assert len(message) < 400


def test_too_many_are_refused_before_all_are_read() -> None:
    def endless() -> object:
        while True:
            yield "numpy"

    with pytest.raises(UnsupportedConfigError, match=f"more than {MAX_REQUIREMENTS}"):
        normalize_requirements(endless())  # type: ignore[arg-type]
