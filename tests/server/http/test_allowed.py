"""What a server allows holds for whatever is asked, named or not, and for runs that another one began."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.engine.request import RunRequest
from runner.inputs.evaluators.load import parse_evaluator
from runner.results.store.types import RunSpec
from runner.server.service.errors import ServiceError
from runner.server.service.scripts import PoolMachine
from runner.server.service.settings import ServiceSettings
from sandboxes.base import SandboxConfig
from tests.server.http.live import finished, live

PLAIN = "def evaluate(output):\n    return output\n"
PACKAGED = f"# /// script\n# dependencies = ['six']\n# ///\n{PLAIN}"
PROCESS = SandboxConfig(backend="process")


def asked(source: str, config: SandboxConfig | None = None) -> RunRequest:
    return RunRequest(evaluator=parse_evaluator(source, "tried"), sandbox=config or SandboxConfig())


@pytest.mark.parametrize(
    ("allowed", "request_", "backend"),
    [
        (("wasm",), asked(PLAIN), "wasm"),
        (("process",), asked(PLAIN), "process"),
        (("wasm", "process"), asked(PACKAGED), "process"),
        (("e2b",), asked(PLAIN), "e2b"),
        (("deno", "e2b"), asked(PLAIN), None),
        (("wasm",), asked(PACKAGED), None),
        (("wasm", "modal"), asked(PACKAGED), None),
        (("wasm",), asked(PLAIN, SandboxConfig(env=("HOME",))), None),
        (("wasm",), asked(PLAIN, SandboxConfig(packages=("six",))), None),
        (("wasm",), asked(PLAIN, SandboxConfig(network=True)), None),
        (("wasm",), asked(PLAIN, PROCESS), None),
    ],
)
def test_a_sandbox_that_nobody_named_is_an_allowed_one(
    allowed: tuple[str, ...], request_: RunRequest, backend: str | None
) -> None:
    settings = ServiceSettings(sandboxes=allowed, env=("HOME",), allow_network=True)
    if backend is not None:
        assert settings.permitted(request_).sandbox.backend == backend
        return
    with pytest.raises(ServiceError, match="this server allows") as refused:
        settings.permitted(request_)
    assert refused.value.kind == "not-allowed"


def test_a_server_runs_nothing_in_other_sandboxes_than_its_own(tmp_path: Path) -> None:
    with live(tmp_path) as before, before.client() as client:
        client.post("/v1/evaluators", json={"name": "packaged", "source": PACKAGED})
        store = before.service.store
        spec = RunSpec(evaluator=store.evaluator("json-distance").reference, dataset="demo", sandbox=PROCESS)
        parked = store.create_run(spec, state="parked").id
    with live(tmp_path, ServiceSettings(sandboxes=("wasm",))) as server, server.client() as client:
        row = {"output": 1}
        for path, body in (
            ("evaluate", {"source": PACKAGED, "rows": [row]}),
            ("evaluate", {"evaluator": "packaged", "rows": [row]}),
            ("runs", {"evaluator": "packaged", "dataset": "demo"}),
        ):
            reply = client.post(f"/v1/{path}", json=body)
            assert (reply.status_code, reply.json()["type"]) == (403, "/problems/not-allowed"), reply.text
        run = finished(client, parked, "failed")
        assert "--sandbox process" in str(run["error"])
        assert client.post(f"/v1/runs/{parked}/resume").status_code == 403
        reply = client.post("/v1/runs", json={"evaluator": "json-distance", "dataset": "demo", "limit": 10**26})
        assert reply.status_code == 422


def test_a_provider_whose_key_is_kept_elsewhere_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("E2B_API_KEY", "e2b_" + "0" * 40)
    settings = ServiceSettings(sandboxes=("e2b",)).check()
    monkeypatch.delenv("E2B_API_KEY")
    fits = PoolMachine(settings.active).fits(parse_evaluator(PLAIN, "tried"), settings.refused())
    assert [one.backend for one in fits if one.fits] == ["e2b"]
