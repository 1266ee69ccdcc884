"""Notebooks, with a real kernel: the progress bar, the running loop, an interrupt, a function of a cell, the report."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from sandboxes.cache import cache_dir

pytestmark = pytest.mark.rotating("doors of the runner", "doors")

nbclient: Any = pytest.importorskip("nbclient")
nbformat: Any = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "notebooks.md"
CACHE = str(cache_dir())
CHILDREN = """\
import os, time
from pathlib import Path
def children():
    found = []
    for task in Path(f"/proc/{os.getpid()}/task").iterdir():
        for pid in (task / "children").read_text().split():
            found.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(bytes(1), b" ").decode()[:200])
    return found
"""
ENDLESS = """\
def endless(output):
    if output > 3:
        while True:
            pass
    return output
"""


class Notebook:
    """Cells run one after the other in one kernel."""

    def __init__(self) -> None:
        self._book = nbformat.v4.new_notebook()
        self._client = nbclient.NotebookClient(self._book, timeout=100, kernel_name="python3")

    def run(self, work: Callable[[Notebook], Coroutine[Any, Any, None]]) -> None:
        async def inside() -> None:
            async with self._client.async_setup_kernel():
                await work(self)

        asyncio.run(inside())

    async def cell(self, source: str) -> list[Any]:
        """The cell's outputs. Raises nbclient's CellExecutionError."""
        cell = nbformat.v4.new_code_cell(source)
        self._book.cells.append(cell)
        await self._client.async_execute_cell(cell, len(self._book.cells) - 1)
        outputs: list[Any] = cell.outputs
        return outputs

    async def interrupted(self, source: str, shown: str) -> str:
        """Interrupt the cell once an output of it has this text; return the error."""
        cell = nbformat.v4.new_code_cell(source)
        self._book.cells.append(cell)
        running = asyncio.create_task(self._client.async_execute_cell(cell, len(self._book.cells) - 1))
        while shown not in text(cell.outputs):
            assert not running.done(), text(cell.outputs)
            await asyncio.sleep(0.05)
        await asyncio.sleep(2)  # until the scripts run, most likely; what is tested holds at any time
        await self._client.km.interrupt_kernel()
        with pytest.raises(nbclient.exceptions.CellExecutionError) as caught:
            await running
        return str(caught.value) + text(cell.outputs)


def text(outputs: list[Any]) -> str:
    found = []
    for output in outputs:
        found.append(output.get("text", ""))
        found += [value for kind, value in output.get("data", {}).items() if kind.startswith("text/")]
    return "\n".join(found)


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Notebook:
    for name in ("HOME", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("EVALCELL_CACHE_DIR", CACHE)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    return Notebook()


def test_a_function_of_a_cell_is_scored_with_a_bar(notebook: Notebook) -> None:
    async def work(notebook: Notebook) -> None:
        await notebook.cell(
            "import asyncio, re\nfrom runner import evaluate, SandboxConfig\nONE = SandboxConfig(jobs=1)"
        )
        await notebook.cell(
            "%env EVALCELL_TEST=1\nWORD = re.compile('[a-z]+')\ndef count(text):\n    return len(WORD.findall(text))"
        )
        # A run that is done sooner shows no bar.
        await notebook.cell("import runner.results.notebook.waiting\nrunner.results.notebook.waiting.INTERVAL = 0.001")
        await notebook.cell("def score(output):\n    return count(output)")
        shown = await notebook.cell(
            "asyncio.get_running_loop()\n"
            "report = evaluate(score, ({'output': 'a b ' * n} for n in range(300)), sandbox=ONE)\n"
            "report.summary.mean"
        )
        assert [output.output_type for output in shown] == ["display_data", "execute_result"]
        assert "300 rows, " in text(shown[:1])
        assert "299.0" in text(shown[1:])
        total = await notebook.cell(
            "evaluate(score, [{'output': 'a'}, {'output': 3}] * 200, sandbox=ONE).summary.failed"
        )
        assert "400 of 400 rows, " in text(total)
        assert "200 failed" in text(total)
        quiet = await notebook.cell("evaluate(score, [{'output': 'a'}], sandbox=ONE, progress=False).summary.rows")
        assert [output.output_type for output in quiet] == ["execute_result"]

        report = await notebook.cell("report")
        [output] = report
        assert "<b>score</b>" in output["data"]["text/html"]
        assert output["data"]["text/plain"] == "<Report score: 300 rows, 300 scored, mean 299>"

    notebook.run(work)


@pytest.mark.parametrize("backend", ["wasm", "process"])
def test_an_interrupt_stops_the_scripts(notebook: Notebook, backend: str) -> None:
    async def work(notebook: Notebook) -> None:
        await notebook.cell(f"from runner import evaluate, Limits, SandboxConfig\n{CHILDREN}\n{ENDLESS}")
        await notebook.cell("before = children()")
        call = (
            "rows = [{'output': n} for n in range(9)]\n"
            f"some = SandboxConfig(backend={backend!r}, jobs=2)\n"
            f"evaluate(endless, rows, limits=Limits(timeout=90), sandbox=some)"
        )
        error = await notebook.interrupted(call, "of 9 rows")
        assert "KeyboardInterrupt" in error
        assert "interrupted after " in error
        left = await notebook.cell("[child for child in children() if child not in before]")
        assert text(left).strip() == "[]"
        again = await notebook.cell("evaluate(endless, [{'output': 1}], sandbox=SandboxConfig(jobs=1)).summary.scored")
        assert "1" in text(again[-1:])

    notebook.run(work)


def test_the_page_runs_in_a_notebook(notebook: Notebook) -> None:
    code = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)

    async def work(notebook: Notebook) -> None:
        shown = [await notebook.cell(block) for block in code]
        assert "The lowest scores (assumed: higher is better)" in shown[0][-1]["data"]["text/html"]
        assert text(await notebook.cell("await first_failure(rows)")).strip() == "'2'"

    notebook.run(work)
