"""A zip as an evaluator: what its folder would be; hostile ones are refused before anything is decoded or written."""

from __future__ import annotations

import io
import stat
import zipfile
from pathlib import Path

import pytest

from runner import EvaluatorError, read_evaluator
from runner.inputs.evaluators.zip_file import MAX_ZIP, read_zip

SOURCE = "from helper import norm\ndef evaluate(output): return norm(output)\n"
HELPER = "def norm(text): return 1.0\n"


def packed(files: dict[str, str | bytes], **more: int) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as made:
        for name, text in files.items():
            info = zipfile.ZipInfo(name)
            info.filename = name  # as it is
            info.compress_type = more.get("method", zipfile.ZIP_DEFLATED)
            info.external_attr = more.get("mode", stat.S_IFREG | 0o644) << 16
            made.writestr(info, text)
    return data.getvalue()


@pytest.mark.parametrize("top", ["", "polite/"])
def test_it_is_read_as_its_folder_is(tmp_path: Path, top: str) -> None:
    files = {"evaluator.py": SOURCE, "helper.py": HELPER, "README.md": "x", ".git/config": "x", "tests/test_it.py": "x"}
    for name in ("evaluator.py", "helper.py"):
        (tmp_path / name).write_text(files[name])
    extra = {"__MACOSX/polite/._evaluator.py": b"\0"}
    found = read_zip(packed({**{f"{top}{name}": text for name, text in files.items()}, **extra}))
    assert found.files == {"helper.py": HELPER}
    assert found.version == read_evaluator(tmp_path).version
    assert found.name == (top.rstrip("/") or "evaluator")


@pytest.mark.parametrize(
    "name",
    ["../evil.py", "/tmp/evil.py", "a/../../evil.py", "a\nb.py", "a\\..\\b.py", "x" * 300, "//evil.py", "./evil.py"],
)
def test_names_that_lead_out_are_refused(name: str) -> None:
    with pytest.raises(EvaluatorError, match="is no name of a file that belongs to it"):
        read_zip(packed({"evaluator.py": SOURCE, "helper.py": HELPER, name: "x"}))


def test_bombs_links_and_damage_are_refused() -> None:
    bomb = packed({"evaluator.py": SOURCE, "helper.py": b"\0" * (200 << 20)})
    assert len(bomb) < MAX_ZIP
    with pytest.raises(EvaluatorError, match="bytes in them"):
        read_zip(bomb)
    with pytest.raises(EvaluatorError, match="more than 1000 files"):
        read_zip(packed({f"{number}.py": "" for number in range(10_000)}))
    lying = bomb.replace((200 << 20).to_bytes(4, "little"), (100).to_bytes(4, "little"))
    with pytest.raises(EvaluatorError, match="the zip"):
        read_zip(lying)
    with pytest.raises(EvaluatorError, match="is no plain file"):
        read_zip(packed({"evaluator.py": "/etc/passwd"}, mode=stat.S_IFLNK | 0o777))
    with pytest.raises(EvaluatorError, match="is no plain file"):
        read_zip(packed({"evaluator.py": SOURCE}, method=zipfile.ZIP_LZMA))
    whole = packed({"evaluator.py": SOURCE, "helper.py": HELPER})
    for broken in (b"", b"PK", whole[:-30], whole[: len(whole) // 2], b"x" * 1000, whole.replace(SOURCE.encode(), b"")):
        with pytest.raises(EvaluatorError, match="the zip"):
            read_zip(broken[:-1])
    with pytest.raises(EvaluatorError, match=r"^the zip is a folder without an evaluator\.py"):
        read_zip(packed({"helper.py": HELPER}))
    twice = packed({"evaluator.py": SOURCE, "evaluator.pz": HELPER}).replace(b"evaluator.pz", b"evaluator.py")
    with pytest.raises(EvaluatorError, match="twice"):
        read_zip(twice)
    with pytest.raises(EvaluatorError, match="the zip cannot be unpacked"):
        read_zip(packed({"evaluator.py": SOURCE, "helper.py": HELPER, "a": "", "a/b.py": ""}))
