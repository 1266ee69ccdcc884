"""What users read: uv's reasons without its noise, and the package to install for an import."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from sandboxes.packages import which_package
from sandboxes.packages.import_names import DISTRIBUTIONS
from sandboxes.packages.settings import settings
from sandboxes.packages.uv import MAX_REASON, is_network_error, is_user_error, reason

DRAWN = """  \u00d7 No solution found when resolving dependencies:
  \u2570\u2500\u25b6 Because there is no version of tiny==9 and you require tiny==9, we can
      conclude that your requirements are unsatisfiable.
"""


def test_an_older_uv_s_drawing_goes_and_its_reason_stays() -> None:
    assert reason(DRAWN) == "Because there is no version of tiny==9 and you require tiny==9"


def test_addresses_and_their_hosts_and_logins_go() -> None:
    said = reason(
        "error: Failed to fetch: `https://me:secret@index.example.org/simple/x/`\n  cause: index.example.org: 503"
    )
    assert "example" not in said
    assert "secret" not in said
    assert "503" in said


def test_a_long_chain_is_cut_to_its_ends_and_a_hint_to_its_beginning() -> None:
    middle = "And because b depends on c, we can conclude that d. " * 50
    chain = f"Because a was not found, we know b. {middle}And because you require z."
    said = reason(f"error: x\n  cause: {chain}\n\nhint: {'h' * 999}")
    assert said.startswith("x; Because a was not found")
    assert "because you require z" in said
    assert len(said) < MAX_REASON + 300


def test_control_characters_in_what_uv_repeats_are_harmless() -> None:
    assert reason("error: a\x1b[31mb\x00c\nd").isprintable()


def test_whose_fault_it_is() -> None:
    assert is_network_error("error: Failed to fetch: x")
    assert not is_network_error(DRAWN)
    assert is_user_error(1, DRAWN)
    assert is_user_error(2, "error: Couldn't parse requirement")
    assert not is_user_error(2, "error: No space left on device")


@pytest.mark.parametrize(
    ("module", "package"),
    [
        ("sklearn", "scikit-learn"),
        ("sklearn.feature_extraction.text", "scikit-learn"),
        ("yaml", "PyYAML"),
        ("google.protobuf.message", "protobuf"),
        ("rapidfuzz", "rapidfuzz"),
        ("bert_score", "bert-score"),
        ("psycopg", "psycopg[binary]"),
        ("streamlit", "streamlit"),
        ("phoenix.client.experiments", "arize-phoenix-client"),
        ("rewards", ""),
        ("numpy.linalg", "numpy"),
        ("", ""),
        (".relative", ""),
        ("_private", ""),
        ("not a name", ""),
        ("x; os.system('y')", ""),
        ("x\n", ""),
        ("x" * 100, ""),
    ],
)
def test_the_package_of_a_module(module: str, package: str) -> None:
    assert which_package(module) == package


def test_every_known_package_has_a_name_that_can_be_asked_for() -> None:
    for package in DISTRIBUTIONS.values():
        assert Requirement(package).name == package.partition("[")[0]


def test_nothing_that_could_harm_reaches_uv() -> None:
    own = {
        "PATH": "/bin",
        "OPENAI_API_KEY": "secret",
        "UV_INDEX_MINE_PASSWORD": "p",
        "UV_LINK_MODE": "hardlink",
        "UV_NO_VERIFY_HASHES": "1",
        "UV_COMPILE_BYTECODE": "1",
        "UV_PYTHON": "3.9",
        "UV_CACHE_DIR": "/elsewhere",
        "UV_NO_CONFIG": "1",
        "UV_OUTPUT_FILE_OF_TOMORROW": "x",
        "PYTHONPATH": "/evil",
        "PYTHONHOME": "/evil",
        "VIRTUAL_ENV": "/evil",
        "RUST_LOG": "trace",
        "FORCE_COLOR": "1",
        "PIP_CONFIG_FILE": os.devnull,
        "PYTHON_KEYRING_BACKEND": "mine",
        "GOOGLE_APPLICATION_CREDENTIALS": "/key.json",
        "DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/bus",
        "AWS_PROFILE": "work",
        "HTTPS_PROXY": "http://127.0.0.1:1",
        "REQUESTS_CA_BUNDLE": "/ca.pem",
    }
    given = settings(own, Path("/cache"), Path("/scratch"))
    assert given.variables == {
        "PATH": "/bin",
        "OPENAI_API_KEY": "secret",
        "UV_INDEX_MINE_PASSWORD": "p",
        "PIP_CONFIG_FILE": os.devnull,
        "PYTHON_KEYRING_BACKEND": "mine",
        "GOOGLE_APPLICATION_CREDENTIALS": "/key.json",
        "DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/bus",
        "AWS_PROFILE": "work",
        "HTTPS_PROXY": "http://127.0.0.1:1",
        "REQUESTS_CA_BUNDLE": "/ca.pem",
        "SSL_CERT_FILE": "/ca.pem",
        "UV_CACHE_DIR": "/cache",
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_NO_PROGRESS": "1",
        "NO_COLOR": "1",
        "TMPDIR": "/scratch",
    }
    assert given.options == ()
    assert given.config == ""


def test_a_choice_of_index_has_a_hash_without_its_login() -> None:
    def choice(**own: str) -> str:
        found = settings(
            {"UV_NO_CONFIG": "1", "PIP_CONFIG_FILE": os.devnull, **own}, Path("/cache"), Path("/scratch")
        ).choice
        assert re.fullmatch("[0-9a-f]{64}", found)
        return found

    one = choice(UV_DEFAULT_INDEX="https://me:1@index.example.org/simple")
    assert one == choice(UV_DEFAULT_INDEX="https://me:2@index.example.org/simple", UV_HTTP_TIMEOUT="3")
    assert one != choice(UV_DEFAULT_INDEX="https://me:1@other.example.org/simple")
    pip = choice(PIP_INDEX_URL="https://me:1@index.example.org/simple")
    assert pip == choice(PIP_INDEX_URL="https://me:2@index.example.org/simple")
    assert pip != choice(PIP_INDEX_URL="https://me:1@other.example.org/simple")
