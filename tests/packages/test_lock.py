"""A lock is a file that anybody may have written: versions and hashes are read from it, nothing else."""

from __future__ import annotations

import pytest

from sandboxes.errors import UnsupportedConfigError
from sandboxes.packages import read_lock

A, B = "a" * 64, "b" * 64

GOOD = f"""# by hand
tiny==1.0 \\
    --hash=sha256:{B} \\
    --hash=sha256:{A}
    # via nobody

Small.Thing==2.0+cpu ; python_version > '3' --hash=sha256:{A}  # why
"""


def test_packages_and_hashes_in_one_form() -> None:
    lock = read_lock(GOOD, "lock.txt")
    assert lock.packages == (("small-thing", "2.0+cpu"), ("tiny", "1.0"))
    assert lock.text == (
        f'small-thing==2.0+cpu ; python_version > "3" \\\n    --hash=sha256:{A}\n'
        f"tiny==1.0 \\\n    --hash=sha256:{A} \\\n    --hash=sha256:{B}\n"
    )


def test_the_digest_is_of_what_is_locked_not_of_its_layout() -> None:
    lock = read_lock(GOOD, "lock.txt")
    assert read_lock(lock.text, "lock.txt") == lock
    assert read_lock(GOOD.replace("\n", "\r\n"), "lock.txt").digest == lock.digest
    assert read_lock(GOOD.replace(B, "c" * 64), "lock.txt").digest != lock.digest
    assert len(lock.digest) == 64


def test_nothing_locked_is_a_lock() -> None:
    assert read_lock("# nothing\n", "lock.txt").packages == ()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("tiny==1.0", "has no --hash"),
        ("tiny --hash=sha256:" + A, "one exact version"),
        ("tiny>=1.0 --hash=sha256:" + A, "one exact version"),
        ("tiny==1.* --hash=sha256:" + A, "one exact version"),
        ("tiny===1.0 --hash=sha256:" + A, "one exact version"),
        ("tiny==1.0,!=2 --hash=sha256:" + A, "one exact version"),
        ("tiny==1.0 --hash=md5:" + A, "not sha256"),
        ("tiny==1.0 --hash=sha256:" + A[1:], "not sha256"),
        ("tiny==1.0 --hash=sha256:" + A + " --index-url x", "is not 'name=="),
        ("--index-url http://index.example.org/simple", "is not 'name=="),
        ("-r other.txt", "is not 'name=="),
        ("-e .", "is not 'name=="),
        ("--hash=sha256:" + A, "is not 'name=="),
        ("tiny @ https://files.example.org/tiny.whl --hash=sha256:" + A, "one exact version"),
        ("https://files.example.org/tiny.whl --hash=sha256:" + A, "is not a requirement"),
        ("./tiny.whl --hash=sha256:" + A, "is not a requirement"),
        ("${TINY}==1.0 --hash=sha256:" + A, "is not a requirement"),
        ("ti\x1bny==1.0 --hash=sha256:" + A, "is not 'name=="),
        ("tiny==1.0 \\\n-r other.txt", "is not 'name=="),
        ("tiny==1.0 --hash=sha256:" + A + "\ntiny==1.1 --hash=sha256:" + A, "is listed twice"),
    ],
)
def test_everything_else_is_refused_with_file_and_line(line: str, why: str) -> None:
    with pytest.raises(UnsupportedConfigError) as caught:
        read_lock(f"# one\nfirst==1 --hash=sha256:{A}\n{line}\n", "run/lock.txt")
    message = str(caught.value)
    assert message.startswith(("run/lock.txt, line 3: ", "run/lock.txt, line 4: "))
    assert why in message
    assert message.isprintable()
    assert len(message) < 300


@pytest.mark.parametrize(
    "text", ["KEY=hunter2", "root:hunter2:1:1", "hunter2 @ https://x", "x @ https://u:hunter2@h/x"]
)
def test_nothing_of_a_file_that_is_no_lock_is_shown(text: str) -> None:
    for line in (text, f"{text} --hash=sha256:{A}"):
        with pytest.raises(UnsupportedConfigError, match="secrets, line 2: it ") as caught:
            read_lock(f"\n{line}\n", "secrets")
        assert "hunter2" not in str(caught.value)


def test_a_file_that_is_too_large_is_refused() -> None:
    with pytest.raises(UnsupportedConfigError, match="over 8 MB"):
        read_lock("#" * (9 << 20), "lock.txt")


def test_thousands_of_packages_are_refused() -> None:
    text = "".join(f"p{i}==1 --hash=sha256:{A}\n" for i in range(2_001))
    with pytest.raises(UnsupportedConfigError, match="more than 2000 packages"):
        read_lock(text, "lock.txt")
