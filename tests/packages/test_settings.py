"""The user's own settings of uv and pip, with the real uv and indexes on this machine."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sandboxes.errors import SandboxUnavailableError, UnsupportedConfigError
from sandboxes.packages import find_uv, settings, uv_config
from tests.packages.conftest import Packages
from tests.packages.index import Index, serve
from tests.packages.wheels import wheel

pytestmark = pytest.mark.rotating("packages", "packages")

ONLY_PROJECTS = {
    *("environments", "required-environments", "conflicts", "workspace", "sources", "managed", "package"),
    *("default-groups", "dependency-groups", "dev-dependencies", "build-backend"),
}
"""Of `pyproject.toml`; uv refuses them in a `uv.toml`."""


def write(text: str, where: str = ".config") -> Path:
    """The user's `uv.toml`, or the system's below `where`."""
    file = Path(os.environ["HOME"]) / where / "uv" / "uv.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


@pytest.fixture(autouse=True)
def _home(packages: Packages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


@pytest.fixture
def indexes(packages: Packages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Index]]:
    """Two indexes, with tiny 1.0 and what it needs, and with tiny 2.0; and no setting that names one."""
    for name in ("UV_DEFAULT_INDEX", "UV_FIND_LINKS"):
        monkeypatch.delenv(name)
    other = tmp_path / "other-wheels"
    wheel(other, "tiny", "2.0")
    wheel(other, "small", "1.5")
    with ExitStack() as stack:
        yield [stack.enter_context(serve(folder)) for folder in (packages.wheels, other)]


def test_every_setting_of_uv_is_decided(tmp_path: Path) -> None:
    """uv itself says which there are."""
    for table, decided in (("", ONLY_PROJECTS | {"pip"}), ("[pip]\n", set())):
        file = tmp_path / "uv.toml"
        file.write_text(f"{table}no-such-setting = 1\n")
        command = [str(find_uv()), "--config-file", str(file), "pip", "compile", "-"]
        said = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL).stderr
        names = set(re.findall(r"`([a-z][a-z-]+)`", said.partition("expected one of")[2]))
        assert len(names) > 40, said
        known = {*uv_config.SOURCES, *uv_config.ACCESS, *uv_config.VERSIONS, *uv_config.REFUSED_KEYS, *uv_config.OWN}
        assert names - known - decided == set()


OURS = {
    *("UV_BUILD_CONSTRAINT", "UV_CUSTOM_COMPILE_COMMAND", "UV_SYSTEM_PYTHON", "UV_FORK_STRATEGY", "UV_NO_SOURCES"),
    *(
        "UV_NO_SOURCES_PACKAGE",
        "UV_NO_BUILD_ISOLATION",
        "UV_LINK_MODE",
        "UV_NO_CACHE",
        "UV_CACHE_DIR",
        "UV_WORKING_DIR",
    ),
    *("UV_MANAGED_PYTHON", "UV_NO_MANAGED_PYTHON", "UV_PYTHON_DOWNLOADS", "UV_NO_PROGRESS", "UV_PROJECT", "UV_PYTHON"),
    *("UV_NO_EDITABLE", "UV_REQUIRE_HASHES", "UV_NO_VERIFY_HASHES", "UV_BREAK_SYSTEM_PACKAGES", "UV_COMPILE_BYTECODE"),
}


def test_every_variable_of_the_commands_that_are_run_is_decided() -> None:
    known = {
        *settings.ACCESS,
        *settings.SOURCE,
        *settings.VERSIONS,
        *settings.FILES,
        *settings.REFUSED_VARIABLES,
        *settings.CONFIG,
    }
    for command in ("compile", "install"):
        said = subprocess.run([str(find_uv()), "help", "pip", command], capture_output=True, text=True).stdout
        names = set(re.findall(r"\bUV_[A-Z_]+[A-Z]", said))
        assert len(names) > 20, said
        assert names - known - OURS == set()


@pytest.mark.parametrize(
    "setting",
    [
        '[pip]\npython-platform = "windows"',
        '[pip]\npython-version = "3.8"',
        "[pip]\nuniversal = true",
        "[pip]\nno-deps = true",
        '[pip]\nno-emit-package = ["small", "tiny"]',
        '[pip]\noutput-file = "/OUT"',
        '[pip]\ntarget = "/OUT"',
        '[pip]\nprefix = "/OUT"',
        "[pip]\nsystem = true\nbreak-system-packages = true",
        '[pip]\npython = "/OUT"',
        "[pip]\ngenerate-hashes = false\nrequire-hashes = false\nverify-hashes = false",
        "[pip]\nemit-index-url = true\nemit-find-links = true\nemit-build-options = true\nemit-index-annotation = true",
        '[pip]\nno-header = false\nno-annotate = false\nannotation-style = "line"\nemit-marker-expression = true',
        '[pip]\nextra = ["x"]',
        '[pip]\ngroup = ["x"]',
        '[pip]\nonly-binary = ["small"]\nno-build = true',
        "[pip]\nno-strip-extras = true\nno-strip-markers = true",
        "[pip]\nupgrade = true\nreinstall = true\nstrict = true\ncompile-bytecode = true",
        "[pip]\nallow-empty-requirements = true",
        'cache-dir = "/OUT"\nno-cache = true\nlink-mode = "symlink"',
        'python-downloads = "automatic"\npython-preference = "only-managed"',
        'cache-keys = [{ file = "x" }]\npublish-url = "http://127.0.0.1:9"\ncompile-bytecode = true\nreinstall = true',
        'build-constraint-dependencies = ["x<1"]\nno-build-isolation = true\nconfig-settings = { a = "b" }',
        "preview = true",
    ],
)
def test_what_is_resolved_and_how_the_lock_is_written_is_ours(packages: Packages, tmp_path: Path, setting: str) -> None:
    packages.add("small", "1.9").rename(packages.wheels / "small-1.9-py3-none-win_amd64.whl")
    packages.add("tiny", "1.0", requires=("small>=1; python_version > '3.9'",))
    expected = packages.resolve("tiny")
    out = tmp_path / "out"
    write(setting.replace("/OUT", str(out)))
    lock = packages.resolve("tiny")
    assert lock == expected
    assert lock.packages == (("small", "1.2"), ("tiny", "1.0"))
    folder = packages.install(lock)
    assert {path.name for path in folder.glob("*.py")} == {"small.py", "tiny.py"}
    assert not out.exists()


@pytest.mark.parametrize(
    ("setting", "key"),
    [
        ("no-binary = true", "no-binary"),
        ('no-binary-package = ["tiny"]', "no-binary-package"),
        ('[pip]\nno-binary = [":all:"]', "pip.no-binary"),
        ('exclude-dependencies = ["small"]', "exclude-dependencies"),
        ('no-such-setting = "x"', "no-such-setting"),
        ('[pip]\nno-such-setting = "x"', "pip.no-such-setting"),
        ('dev-dependencies = ["x"]', "dev-dependencies"),
    ],
)
def test_what_cannot_be_honoured_is_refused_with_file_and_key(packages: Packages, setting: str, key: str) -> None:
    file = write(setting)
    with pytest.raises(UnsupportedConfigError) as caught:
        packages.resolve("tiny")
    assert str(caught.value).startswith(f"packages: {file}: `{key}` ")
    assert "UV_CONFIG_FILE" in str(caught.value)


@pytest.mark.parametrize("setting", ["no-binary = false", "no-binary-package = []", "exclude-dependencies = []"])
def test_what_says_nothing_is_not_refused(packages: Packages, setting: str) -> None:
    write(setting)
    assert packages.resolve("tiny").packages


@pytest.mark.parametrize(
    ("name", "value"), [("UV_NO_BINARY", "1"), ("UV_NO_BINARY_PACKAGE", "tiny"), ("UV_EXCLUDE", "x.txt")]
)
def test_a_variable_that_cannot_be_honoured_is_refused(
    packages: Packages, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(UnsupportedConfigError, match=f"^packages: {name} cannot be honoured: .*; run: unset {name}$"):
        packages.resolve("tiny")


@pytest.mark.parametrize(
    ("text", "why"), [("index = [", "is not TOML"), ("x = '\udcff'", "is not TOML"), ("pip = 1", "is not a table")]
)
def test_a_broken_file_is_named(packages: Packages, text: str, why: str) -> None:
    file = write("")
    file.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(UnsupportedConfigError, match=why) as caught:
        packages.resolve("tiny")
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "key", "why"),
    [
        ('resolution = "newest"', "resolution", "unknown variant `newest`"),
        ('[pip]\nresolution = "newest"', "pip", "unknown variant `newest`"),
        ('constraint-dependencies = ["a b"]', "constraint-dependencies", "Expected one of"),
        ("[[index]]\nname = 'x'", "index", "missing field `url`"),
    ],
)
def test_what_uv_cannot_use_is_told_of_the_user_s_file(packages: Packages, setting: str, key: str, why: str) -> None:
    file = write(setting)
    with pytest.raises(UnsupportedConfigError) as caught:
        packages.resolve("tiny")
    assert str(caught.value).startswith(f"packages: uv cannot use `{key}` of {file}: {why}")


def test_a_file_without_an_end_is_not_read_to_it(packages: Packages, monkeypatch: pytest.MonkeyPatch) -> None:
    fifo = Path(os.environ["HOME"]) / "fifo.toml"
    os.mkfifo(fifo)
    for place in ("/dev/zero", str(fifo)):
        monkeypatch.setenv("UV_CONFIG_FILE", place)
        with pytest.raises(UnsupportedConfigError, match="is no regular file"):
            packages.resolve("tiny")


@pytest.mark.parametrize(
    "setting",
    [
        'constraint-dependencies = ["small<1.2"]',
        'override-dependencies = ["small==1.1"]',
        'resolution = "lowest"',
        '[pip]\nresolution = "lowest"',
        '[[dependency-metadata]]\nname = "tiny"\nversion = "1.0"\nrequires-dist = ["small==1.1"]',
    ],
)
def test_versions_are_the_user_s_to_choose_and_hold_for_resolving_alone(packages: Packages, setting: str) -> None:
    packages.add("small", "1.1")
    before = packages.resolve("tiny")
    write(setting)
    lock = packages.resolve("tiny")
    assert lock.packages == (("small", "1.1"), ("tiny", "1.0"))
    for one in (lock, before):  # an earlier lock is installed as it is
        assert (packages.install(one) / "small.py").is_file()


def test_a_date_holds_for_resolving_alone(packages: Packages, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = packages.resolve("tiny")
    monkeypatch.setenv("UV_EXCLUDE_NEWER", "2001-01-01")
    write('exclude-newer = "2001-01-01T00:00:00Z"')
    assert (packages.install(lock) / "tiny.py").is_file()


@pytest.mark.parametrize("name", ["UV_CONSTRAINT", "PIP_CONSTRAINT"])
def test_files_of_constraints_count_and_so_does_a_change_in_them(
    packages: Packages, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    packages.add("small", "1.1")
    monkeypatch.chdir(tmp_path)
    Path("limits.txt").write_text("small<1.2\n")
    monkeypatch.setenv(name, "limits.txt")
    lock = packages.resolve("tiny")
    assert lock.packages == (("small", "1.1"), ("tiny", "1.0"))
    assert packages.install(lock)
    Path("limits.txt").write_text("small<9\n")
    assert packages.resolve("tiny").packages == (("small", "1.2"), ("tiny", "1.0"))
    Path("limits.txt").unlink()
    with pytest.raises(UnsupportedConfigError, match=r"limits\.txt cannot be read"):
        packages.resolve("tiny")


def test_an_override_that_takes_out_what_is_asked_for_is_told(packages: Packages) -> None:
    write("override-dependencies = [\"tiny; python_version < '3'\"]")
    with pytest.raises(UnsupportedConfigError, match="tiny is left out by your own settings of uv"):
        packages.resolve("tiny")


def test_the_system_s_and_the_user_s_files_are_merged_as_uv_merges_them(
    packages: Packages, indexes: list[Index], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each index is asked for the same names as by uv itself, and the same versions are found."""
    first, second = indexes
    pairs = [
        (f'index-url = "{first.url}"', 'resolution = "highest"'),
        (f'[[index]]\nurl = "{first.url}"\ndefault = true', f'extra-index-url = ["{second.url}"]'),
        (f'extra-index-url = ["{first.url}"]\nno-index = false', f'index-url = "{second.url}"'),
        (f'index-url = "{first.url}"', f'[pip]\nindex-url = "{second.url}"'),
        (f'[pip]\nindex-url = "{first.url}"\nresolution = "lowest"', f'index-url = "{second.url}"'),
        (f'index-url = "{first.url}"\nconstraint-dependencies = ["small<1.2"]', 'constraint-dependencies = ["tiny<3"]'),
        (f'[pip]\nextra-index-url = ["{first.url}"]', f'[pip]\nindex-url = "{second.url}"'),
        (f'find-links = ["{packages.wheels}"]\nno-index = true', 'prerelease = "allow"'),
        ('find-links = ["../../../wheels"]\nno-index = true', "offline = false"),
    ]
    packages.add("small", "1.1")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "in.txt").write_text("tiny\n")
    for number, (system, user) in enumerate(pairs):
        write(system, "system")
        write(user)
        command = [str(find_uv()), "--quiet", "pip", "compile", "in.txt", "--no-header", "--no-annotate"]
        places = {"UV_CACHE_DIR": str(tmp_path / f"cache-{number}"), "UV_PYTHON_DOWNLOADS": "never"}
        done = subprocess.run(command, cwd=tmp_path / "empty", env=os.environ | places, capture_output=True, text=True)
        assert done.returncode == 0, (system, user, done.stderr)
        theirs = [index.asked.copy() for index in indexes]
        for index in indexes:
            index.asked.clear()
        monkeypatch.setenv("EVALCELL_CACHE_DIR", str(tmp_path / f"own-{number}"))
        lock = packages.resolve("tiny")
        assert "\n".join(f"{name}=={version}" for name, version in lock.packages) == done.stdout.strip(), (system, user)
        assert [sorted(index.asked) for index in indexes] == [sorted(one) for one in theirs], (system, user)
        assert packages.install(lock)
        for index in indexes:
            index.asked.clear()


def test_private_names_go_to_the_company_s_index_alone(packages: Packages, indexes: list[Index]) -> None:
    company, public = indexes
    write(f'index-url = "{company.url}"', "system")
    write('prerelease = "allow"')
    assert packages.resolve("tiny").packages == (("small", "1.2"), ("tiny", "1.0"))
    assert public.asked == []


@pytest.mark.parametrize("variable", ["UV_NO_CONFIG", "UV_NO_SYSTEM_CONFIG"])
def test_files_that_uv_is_told_to_leave_are_left(
    packages: Packages, indexes: list[Index], monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    write(f'index-url = "{indexes[0].url}"', "system")
    monkeypatch.setenv("UV_INDEX_URL", indexes[1].url)
    monkeypatch.setenv(variable, "1")
    assert packages.resolve("tiny").packages == (("tiny", "2.0"),)
    assert indexes[0].asked == []


def test_relative_indexes_are_seen_from_where_they_are_written(
    packages: Packages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("UV_FIND_LINKS")
    monkeypatch.delenv("UV_DEFAULT_INDEX")
    monkeypatch.chdir(packages.wheels.parent)
    monkeypatch.setenv("UV_INDEX", "mine=./index")
    write('no-index = false\nfind-links = ["../../../wheels"]\n[[index]]\nurl = "../../../index"\ndefault = true\n')
    assert packages.resolve("tiny").packages


KEYRING = """#!/bin/sh
test "$GOOGLE_APPLICATION_CREDENTIALS" = /key.json && test "$AWS_PROFILE" = work || exit 1
test -n "$DBUS_SESSION_BUS_ADDRESS" && test -z "$PYTHONPATH" || exit 1
echo password
"""


def test_a_keyring_helper_has_what_it_logs_in_with(
    packages: Packages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("UV_FIND_LINKS")
    helper = tmp_path / "bin" / "keyring"
    helper.parent.mkdir()
    helper.write_text(KEYRING)
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{helper.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/key.json")
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere")
    monkeypatch.setenv("AWS_PROFILE", "work")
    monkeypatch.setenv("PYTHONPATH", "/evil")
    monkeypatch.setenv("UV_KEYRING_PROVIDER", "subprocess")
    with serve(packages.wheels, login="oauth2accesstoken:password") as index:
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"http://oauth2accesstoken@{index.address}/simple")
        assert packages.install(packages.resolve("tiny"))


@pytest.mark.parametrize("refusal", [401, 403])
def test_a_refused_login_is_told_as_such(packages: Packages, monkeypatch: pytest.MonkeyPatch, refusal: int) -> None:
    lock = packages.resolve("tiny")
    monkeypatch.delenv("UV_FIND_LINKS")
    with serve(packages.wheels, login="me:right", refusal=refusal) as index:
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"http://me:wrong@{index.address}/simple/a1b2c3d4e5f6a7b8c9/?token=x")
        for act in (lambda: packages.resolve("tiny"), lambda: packages.install(lock)):
            with pytest.raises(SandboxUnavailableError) as caught:
                act()
            message = str(caught.value)
            assert f"http://{index.address}/simple/… refuses the login" in message
            assert str(refusal) in message
            assert "UV_KEYRING_PROVIDER" in message
            for secret in ("wrong", "me:", "a1b2", "token", "another Python", "change the versions"):
                assert secret not in message


def test_a_proxy_that_refuses_the_login_is_told_as_such(packages: Packages, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = packages.resolve("tiny")
    monkeypatch.delenv("UV_FIND_LINKS")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with serve(packages.wheels, login="me:right", refusal=407) as proxy:
        monkeypatch.setenv("UV_DEFAULT_INDEX", "http://index.example.org/simple")
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://me:wrong@{proxy.address}")
        for act in (lambda: packages.resolve("tiny"), lambda: packages.install(lock)):
            with pytest.raises(SandboxUnavailableError) as caught:
                act()
            message = str(caught.value)
            assert "the proxy refuses the login (407 Proxy Authentication Required)" in message
            assert "set HTTPS_PROXY with user and password" in message
            assert "wrong" not in message


def pip_conf(text: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PIP_CONFIG_FILE")
    file = Path(os.environ["HOME"]) / ".config" / "pip" / "pip.conf"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    return file


def test_pip_s_file_counts_where_uv_has_no_index(
    packages: Packages, indexes: list[Index], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    company, other = indexes
    (tmp_path / "limits.txt").write_text("small<1.2\n")
    packages.add("small", "1.1")
    lines = f"[global]\nindex-url = {other.url}\nconstraint = {tmp_path}/limits.txt\n[install]\nindex_url={company.url}"
    pip_conf(lines, monkeypatch)
    assert packages.resolve("tiny").packages == (("small", "1.1"), ("tiny", "1.0"))
    assert other.asked == []
    write(f'[[index]]\nurl = "{other.url}"')
    assert packages.resolve("tiny").packages == (("tiny", "2.0"),)


@pytest.mark.parametrize("extra", [0, 1])
def test_an_extra_index_of_pip_s_does_not_hide_the_versions_of_the_other(
    packages: Packages, indexes: list[Index], monkeypatch: pytest.MonkeyPatch, extra: int
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", indexes[1 - extra].url)
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", indexes[extra].url)
    assert packages.resolve("tiny").packages == (("tiny", "2.0"),)
    assert packages.resolve("tiny==1.0").packages == (("small", "1.5"), ("tiny", "1.0"))


def test_pip_s_no_index_counts(packages: Packages, indexes: list[Index], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_INDEX_URL", indexes[0].url)
    monkeypatch.setenv("PIP_FIND_LINKS", str(packages.wheels))
    assert packages.install(packages.resolve("tiny"))
    assert indexes[0].asked == []


def test_pip_s_variable_is_stronger_than_its_files_and_pre_counts(
    packages: Packages, indexes: list[Index], monkeypatch: pytest.MonkeyPatch
) -> None:
    packages.add("tiny", "3.0rc1")
    pip_conf(f"[global]\nindex-url = {indexes[1].url}\npre = yes\n", monkeypatch)
    monkeypatch.setenv("PIP_INDEX_URL", indexes[0].url)
    assert packages.resolve("tiny").packages == (("tiny", "3.0rc1"),)
    assert indexes[1].asked == []


def test_what_pip_was_told_and_does_not_count_is_told_once(packages: Packages, monkeypatch: pytest.MonkeyPatch) -> None:
    file = pip_conf("[install]\nno-binary = :all:\n", monkeypatch)
    packages.resolve("tiny")
    (line,) = [line for line in packages.said if "no-binary" in line]
    assert line.startswith(f"packages: `no-binary` of {file} does not count: ")


def test_a_broken_file_of_pip_is_named(packages: Packages, monkeypatch: pytest.MonkeyPatch) -> None:
    file = pip_conf("index-url = x\n", monkeypatch)
    with pytest.raises(UnsupportedConfigError, match="mend it") as caught:
        packages.resolve("tiny")
    assert str(file) in str(caught.value)
