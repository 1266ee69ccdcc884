"""Texts that are not UTF-8: the encoding that is proposed, and the words for CSV that is none."""
# ruff: noqa: RUF001

from __future__ import annotations

from pathlib import Path

import pytest

from runner.inputs.datasets.dataset import open_dataset
from runner.inputs.datasets.formats.encodings import likely_encoding
from runner.inputs.datasets.rows import RowReading
from runner.server.service.rows import looked_at
from tests.inputs.reading import refusal, written

TEXTS = {
    "cp1252": [
        "Grüße aus Köln,„Straße“\nÄrger,süß\n",
        "ça coûte 5 €,été\nl’été,à\n",
        "São Paulo,ações e coração\n",
    ],
    "cp1250": ["Zażółć gęślą jaźń,łódź\n", "Příliš žluťoučký kůň,úpěl ďábelské ódy\n"],
    "cp1251": ["Привет мир,Москва\nкак дела,хорошо\n"],
    "koi8_r": ["Привет мир,Москва\nкак дела,хорошо\n"],
    "cp1253": ["Καλημέρα κόσμε,Αθήνα\n"],
    "mac_roman": ["Grüße aus Köln,Straße\nÄrger,süß\n"],
    "shift_jis": ["こんにちは、元気,テスト文字\n日本語のテスト,東京\n"],
    "euc_jp": ["こんにちは、元気,テスト文字\n日本語のテスト,東京\n"],
    "euc_kr": ["안녕하세요,서울\n한국어 시험,부산\n"],
    "gb18030": ["你好吗今天,北京上海\n中文的测试,我们\n"],
    "big5": ["你好嗎今天,臺北\n中文的測試,我們\n"],
}


@pytest.mark.parametrize(("encoding", "text"), [(name, text) for name, texts in TEXTS.items() for text in texts])
def test_the_likely_encoding_reads_the_text(tmp_path: Path, encoding: str, text: str) -> None:
    assert likely_encoding(text.encode(encoding)) == encoding
    assert likely_encoding((text * 3000).encode(encoding)[: (1 << 16) - 1]) == encoding
    path = written(tmp_path, "d.csv", f"output,reference\n{text}".encode(encoding))
    assert f"in {encoding}, line 2 has" in (said := refusal(path))
    assert f'encoding="{encoding}"' in said
    with open_dataset(path, reading=RowReading(encoding=encoding)) as dataset:
        assert next(iter(dataset)).output == text.partition(",")[0].rstrip("\n")  # read as it was written


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b'output,more\na,"x\ry"\rb,c\r\nd,e\n', "a carriage return outside of quotes"),
        (b'output,more\n"he said \\"hi\\"",x\n', "text behind a closing quote; within quotes a quote is written twice"),
        (b'output,more\n"open,x\n', "a quote is left open"),
    ],
)
def test_what_is_no_csv_is_told_in_words_with_a_step(tmp_path: Path, text: bytes, said: str) -> None:
    with open_dataset(written(tmp_path, "d.csv", text)) as dataset:
        case = next(iter(dataset))
    assert f"not CSV: {said}" in (case.broken or "")
    assert "universal-newline" not in (case.broken or "")


def test_a_place_is_told_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no row can be used: d\.jsonl:1: not JSON") as refused:
        looked_at(written(tmp_path, "d.jsonl", '{"output": }\n'))
    assert str(refused.value).count("d.jsonl:1") == 1
