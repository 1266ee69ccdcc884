"""A run that is stopped while its results folder is being begun says so in the manifest."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from runner.engine.scoring.tally import Tally
from runner.results.output.folder import ResultsFolder
from runner.results.output.row_cells import Layout
from runner.results.output.sinks import Outputs
from tests.engine.prepared import prepared
from tests.engine.scripted import SCRIPT, fake


@pytest.mark.parametrize("written", [False, True], ids=["before the first manifest", "while it is written"])
async def test_the_last_manifest_is_the_one_that_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    reached, go_on = threading.Event(), threading.Event()
    real: Any = ResultsFolder._write if written else ResultsFolder._begin

    def slow(folder: ResultsFolder, *given: Any) -> None:
        if not reached.is_set():
            reached.set()
            go_on.wait(60)
        real(folder, *given)

    monkeypatch.setattr(ResultsFolder, real.__name__, slow)
    outputs = Outputs([f"{tmp_path / 'run'}/"], inputs=(), lock=None)
    begin = asyncio.create_task(outputs.begin(prepared(SCRIPT, fake()), Layout()))
    await asyncio.to_thread(reached.wait)
    begin.cancel()
    with suppress(asyncio.CancelledError):
        await begin
    threading.Timer(0 if written else 0.2, go_on.set).start()
    outputs.end("interrupted", Tally({}).summary(0.0), ())
    for thread in threading.enumerate():
        if thread.name == "evalcell-folder":
            thread.join()
    manifest = tmp_path / "run" / "manifest.json"
    if written:
        assert json.loads(manifest.read_text())["state"] == "interrupted"
    else:
        assert not manifest.exists(), "nothing of a run is begun once it has ended"
