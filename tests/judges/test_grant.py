"""What settings and headers say of judges, and what is refused, with the words of the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runner.core.doors import speaking
from runner.core.errors import InputError
from runner.core.settings import JudgeSettings
from runner.engine.judges import grant_judges
from runner.engine.request import RunRequest, prepare
from runner.server.service.errors import ServiceError
from runner.server.service.settings import ServiceSettings
from sandboxes.base import SandboxConfig
from sandboxes.errors import UnsupportedConfigError
from sandboxes.judges.grant import JudgeBudget

SCRIPT = "def evaluate(output): return 1\n"


def settings(**values: Any) -> Any:
    found = grant_judges(JudgeSettings(**values))
    assert found is not None
    return found


def test_a_known_judge_has_all_it_needs() -> None:
    judges = settings(judge="openai")
    (host,), (secret,), role = judges.hosts, judges.secrets, judges.roles["judge"]
    assert (host.name, secret.variable, secret.host) == ("api.openai.com", "OPENAI_API_KEY", "api.openai.com")
    assert "/v1/chat/completions" in host.paths
    assert "/v1/files" not in host.paths
    assert (role.host, role.path, role.model) == ("api.openai.com", "/v1/chat/completions", None)
    variables = judges.box_variables()
    assert variables["OPENAI_BASE_URL"] == "http://127.0.0.1:8711/v1"
    assert variables["OPENAI_API_KEY"] == "evalcell-OPENAI_API_KEY"


def test_several_judges_have_roles() -> None:
    judges = settings(judge=["grader=openai/gpt-5-mini", "other=anthropic/claude", "http://127.0.0.1:8000#local"])
    assert {name: (role.model, role.style) for name, role in judges.roles.items()} == {
        "grader": ("gpt-5-mini", "openai"),
        "other": ("claude", "anthropic"),
        "judge": ("local", "openai"),
    }
    assert list(judges.ports().items()) == [
        (8711, "api.openai.com"),
        (8712, "api.anthropic.com"),
        (8713, "http://127.0.0.1:8000"),
    ]
    assert judges.box_variables()["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:8712"


def test_openrouter_speaks_as_openai() -> None:
    variables = settings(judge="openrouter").box_variables()
    assert variables["OPENAI_BASE_URL"].endswith("/api/v1")
    assert variables["OPENAI_API_KEY"] == "evalcell-OPENROUTER_API_KEY"


def test_other_hosts_and_keys() -> None:
    judges = settings(allow_host="api.example.com", secret="TOKEN@api.example.com")
    variables = judges.box_variables()
    assert variables["API_EXAMPLE_COM_URL"] == "http://127.0.0.1:8711"
    assert variables["TOKEN"] == "evalcell-TOKEN"
    judges = settings(judge="https://llm.example.com/v1", secret="LLM@llm.example.com")
    assert judges.box_variables()["OPENAI_API_KEY"] == "evalcell-LLM"
    assert judges.roles["judge"].secret == "LLM"


def test_a_budget_has_units() -> None:
    judges = settings(judge="openai", budget="requests=500, tokens=2M,usd=1.5", judge_price="gpt-5=1.25/10")
    assert judges.budget == JudgeBudget(requests=500, tokens=2_000_000, usd=1.5)
    assert judges.prices["gpt-5"].output == 10


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"judge": "opnai"}, "did you mean `openai`"),
        ({"judge": "localhost:8000/v1"}, "a judge's URL has a scheme: http://localhost:8000/v1"),
        ({"judge": "http://127.0.0.1/v1"}, "SCHEME://NAME:PORT"),
        ({"judge": "http://169.254.169.254:80/v1"}, "passwords"),
        ({"judge": "https://llm.example.com/v1?x=y"}, "no plain URL"),
        ({"judge": ["a=openai/x", "a=openai/y"]}, "another judge already"),
        ({"allow_host": "10.0.0.1"}, "--allow-host 10.0.0.1 is not a host's name"),
        ({"allow_host": "*.example.com"}, "is not a host's name"),
        ({"allow_host": "a.example", "secret": "K@b.example"}, "--allow-host b.example"),
        ({"judge": "openai", "secret": "sk-some-value"}, "not its value"),
        ({"judge": "openai", "budget": "requests=1.5"}, "is not requests=N"),
        ({"judge": "openai", "budget": "euros=1"}, "is not requests=N"),
        ({"judge": "openai", "budget": "requests="}, "is not requests=N"),
        ({"judge": "openai", "judge_price": "gpt-5"}, "MODEL=IN/OUT"),
        ({"judge": "openai", "judge_price": "gpt-5=-1/2"}, "MODEL=IN/OUT"),
        ({"budget": "requests=1"}, "--judge openai"),
        ({"replay": "x"}, "--judge openai"),
    ],
)
def test_what_cannot_be_read_is_refused(values: dict[str, Any], words: str) -> None:
    with speaking("options"), pytest.raises((InputError, UnsupportedConfigError)) as raised:
        grant_judges(JudgeSettings(**values))
    with speaking("options"):
        assert words in str(raised.value)
        assert "sk-some-value" not in str(raised.value)


def refused(tmp_path: Path, script: str = SCRIPT, **request: Any) -> str:
    path = tmp_path / "script.py"
    path.write_text(script)
    with speaking("options"), pytest.raises((InputError, UnsupportedConfigError)) as raised:
        prepare(RunRequest(evaluator=str(path), **request))
    with speaking("options"):
        return str(raised.value)


def test_a_key_in_the_box_is_refused_beside_a_judge(tmp_path: Path) -> None:
    judges = JudgeSettings(judge="openai")  # type: ignore[arg-type]
    told = refused(tmp_path, judges=judges, sandbox=SandboxConfig(env=("ANTHROPIC_API_KEY",)))
    assert "--env ANTHROPIC_API_KEY would show the script the key; in its place write --judge anthropic" in told
    judges = JudgeSettings(allow_host="a.example", secret="TOKEN@a.example")  # type: ignore[arg-type]
    told = refused(tmp_path, judges=judges, sandbox=SandboxConfig(env=("TOKEN",)))
    assert "--secret TOKEN@a.example" in told
    assert "--allow-network" in refused(tmp_path, judges=judges, sandbox=SandboxConfig(network=True))


def test_a_header_wishes_and_the_caller_allows(tmp_path: Path) -> None:
    script = '# /// script\n# [tool.evalcell]\n# hosts = ["HOST"]\n# ///\n' + SCRIPT
    told = refused(tmp_path, script.replace("HOST", "api.openai.com"))
    assert "asks for the host api.openai.com, which nobody allows yet; allow it: --judge openai" in told
    assert "--allow-host a.example" in refused(tmp_path, script.replace("HOST", "a.example"))
    path = tmp_path / "script.py"
    prepared = prepare(
        RunRequest(evaluator=str(path), judges=JudgeSettings(allow_host="a.example"))  # type: ignore[arg-type]
    )
    assert prepared.sandbox.name == "process"
    assert prepared.sandbox.config.judges is not None


def test_a_sandbox_without_a_way_says_so(tmp_path: Path) -> None:
    judges = JudgeSettings(judge="http://127.0.0.1:8000")  # type: ignore[arg-type]
    told = refused(tmp_path, judges=judges, sandbox=SandboxConfig(backend="wasm"))
    assert "in the wasm sandbox a script's own client" in told
    assert "from evalcell_judge import ask" in told


def test_judges_are_granted_by_settings_alone(tmp_path: Path) -> None:
    config = SandboxConfig(judges=settings(judge="openai"))
    assert "judges=JudgeSettings" in refused(tmp_path, sandbox=config)
    with pytest.raises(ServiceError, match="a request grants no judges"):
        ServiceSettings().refuse(config)
