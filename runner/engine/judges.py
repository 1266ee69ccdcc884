"""What a run's settings grant to scripts that ask judges."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import templates
from runner.core.errors import InputError
from runner.core.settings import JudgeSettings
from runner.core.text import list_names, printable, read_bounded, suggestion
from runner.core.types import Evaluator
from runner.engine.batch_program import is_batched
from runner.inputs.evaluators.judges import ASKING, replies_name
from runner.inputs.evaluators.load import in_folder, split_entry
from sandboxes.base import SandboxConfig
from sandboxes.errors import UnsupportedConfigError
from sandboxes.judges.addresses import is_loopback, read_host
from sandboxes.judges.asks import ANY
from sandboxes.judges.grant import Host, JudgeBudget, Judges, Price, Role, Secret, Style
from sandboxes.registry import find
from sandboxes.words.wording import Message, Setting


class KnownJudge(NamedTuple):
    """A service that many scripts ask."""

    host: str
    secret: str
    paths: tuple[str, ...]
    variables: Mapping[str, str]
    """As `Host.variables`."""
    style: Style = "openai"


_OPENAI = ("/v1/chat/completions", "/v1/responses", "/v1/embeddings", "/v1/moderations")
PROVIDERS = {
    "openai": KnownJudge(
        "api.openai.com",
        "OPENAI_API_KEY",
        _OPENAI,
        {"OPENAI_BASE_URL": "{url}/v1", "OPENAI_API_BASE": "{url}/v1"},
    ),
    "anthropic": KnownJudge(
        "api.anthropic.com",
        "ANTHROPIC_API_KEY",
        ("/v1/messages", "/v1/messages/count_tokens"),
        {"ANTHROPIC_BASE_URL": "{url}", "ANTHROPIC_API_BASE": "{url}"},
        "anthropic",
    ),
    "openrouter": KnownJudge(
        "openrouter.ai",
        "OPENROUTER_API_KEY",
        tuple(f"/api{path}" for path in _OPENAI[:3]),
        {
            "OPENROUTER_API_BASE": "{url}/api/v1",
            "OPENAI_BASE_URL": "{url}/api/v1",
            "OPENAI_API_BASE": "{url}/api/v1",
            "OPENAI_API_KEY": "evalcell-OPENROUTER_API_KEY",
        },
    ),
}
_AZURE = ".openai.azure.com"
_PLAIN_KEY = "evalcell-no-key"
"""Clients want a key even for a judge that wants none."""
_NUMBER = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)([kM]?)")
_UNITS = {"": 1, "k": 1_000, "M": 1_000_000}
_ADDRESS = re.compile(r"[\w.-]+:\d+(/|$)")
_ROLE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_LARGEST_RECORD = 64 << 20
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")


def grant_judges(settings: JudgeSettings, env_file: str | None = None) -> Judges | None:
    """
    Return what is granted; None if nothing is.

    Args:
        settings: As people write them.
        env_file: Where keys are looked up first.

    Raises:
        InputError: A word of them cannot be read.
        UnsupportedConfigError: A host is spelt in another way than hosts are.
    """
    if not (settings.judge or settings.allow_host):
        lone = next((name for name in ("secret", "budget", "record", "replay") if getattr(settings, name)), None)
        if lone is not None:
            judge = Setting("judges.judge", ["openai"])
            raise InputError(
                Message(Setting(f"judges.{lone}"), " is of a judge, and none is granted; name it: ", judge)
            )
        return None
    found = _Grant()
    for text in settings.judge:
        found.add(text)
    for text in settings.allow_host:
        read_host(text)
        name = re.sub(r"[^A-Z0-9]+", "_", text.rpartition("://")[2].upper())
        found.add_host(Host(name=text, variables={f"{name}_URL": "{url}"}))
    for text in settings.secret:
        found.add_secret(text)
    return Judges(
        hosts=tuple(found.hosts.values()),
        secrets=tuple(found.secrets.values()),
        env_file=env_file,
        budget=_budget(settings.budget),
        prices=dict(map(_price, settings.judge_price)),
        in_flight=settings.in_flight,
        judge_timeout=settings.judge_timeout,
        record=settings.record,
        replay=settings.replay,
        roles=found.roles,
    )


def refuse_unanswered(judges: Judges | None, where: str) -> None:
    """Raise UnsupportedConfigError for a script that asks judges by `evalcell_judge` where nobody answers."""
    if judges is None or not judges.roles:
        local = Setting("judges.judge", ["http://127.0.0.1:8000"])
        step = Message(Setting("judges.judge", ["openai/MODEL"]), ", or for one of this machine ", local)
        raise UnsupportedConfigError(Message(f"{where} asks a judge, and nobody grants one yet; grant it: ", step))


def find_record(named: str | Evaluator, evaluator: Evaluator) -> Path | None:
    """Return the file with judges' replies to a script's worked examples: a template's, or one beside the script."""
    if templates.is_source(evaluator.name, evaluator.source):
        found = [templates.cases(evaluator.name).with_name("judge.jsonl")]
    elif isinstance(named, str):
        script = in_folder(split_entry(named)[0])
        found = [script.with_name(f"{script.stem}.judge.jsonl"), script.with_name("judge.jsonl")]
    else:
        found = []
    return next((path for path in found if path.is_file()), None)


def recorded_judges(path: str) -> Judges:
    """
    Return a grant by which the judge of a record answers, and nothing is sent.

    Raises:
        InputError: It is no record.
    """
    found: list[dict[str, Any]] = []
    for line in read_bounded("the record", path, _LARGEST_RECORD).splitlines():
        try:
            one = json.loads(line)
            found += [one] if "failed" not in one else []
            _ = [one["host"] + one["path"] for one in found[-1:]]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise InputError(f"{printable(path)}: a line is no exchange as evalcell records them") from None
    if not found:
        raise InputError(f"{printable(path)} has no exchanges; record them anew")
    bodies = [one.get("request") for one in found]
    models = {str(body.get("model", "")) if isinstance(body, dict) else "" for body in bodies}
    host, way = found[0]["host"], found[0]["path"]
    style: Style = "anthropic" if way.endswith("/messages") else "openai"
    role = Role(host=host, path=way, style=style, model=models.pop() or None if len(models) == 1 else None)
    return Judges(hosts=(Host(name=host),), roles={ANY: role}, replay=path)


class _Grant:
    def __init__(self) -> None:
        self.hosts: dict[str, Host] = {}
        self.secrets: dict[str, Secret] = {}
        self.roles: dict[str, Role] = {}

    def add(self, text: str) -> None:
        """Grant what one `--judge` says."""
        role, equals, judge = text.partition("=")
        if not equals or not _ROLE.fullmatch(role):
            role, judge = ANY, text
        if "://" in judge:
            made = self._url(judge)
        else:
            name, _, model = judge.partition("/")
            if name not in PROVIDERS:
                hint = suggestion(name, PROVIDERS) or f": known are {list_names(PROVIDERS)}, and URLs"
                if _ADDRESS.match(judge):
                    hint = f"; a judge's URL has a scheme: {printable(f'http://{judge}', 200)}"
                raise InputError(Message(Setting("judges.judge", [text]), f" names no judge that is known{hint}"))
            provider = PROVIDERS[name]
            self.add_host(Host(name=provider.host, paths=provider.paths, variables=dict(provider.variables)))
            self.secrets[provider.secret] = Secret(variable=provider.secret, host=provider.host)
            made = Role(
                host=provider.host,
                path=provider.paths[0],
                style=provider.style,
                model=model or None,
                secret=provider.secret,
            )
        if self.roles.setdefault(role, made) != made and role != ANY:
            raise InputError(Message(Setting("judges.judge", [text]), f": the role {role} has another judge already"))

    def _url(self, judge: str) -> Role:
        parts = urlsplit(judge)
        name = f"{parts.scheme}://{parts.netloc}"
        if parts.scheme == "https" and ":" not in parts.netloc:
            name = parts.netloc
        address = read_host(name)
        path = parts.path.rstrip("/") or ("/openai/v1" if name.endswith(_AZURE) else "/v1")
        if parts.query or not re.fullmatch(r"(/[A-Za-z0-9._-]+)+", path):
            raise InputError(Message(Setting("judges.judge", [judge]), " is no plain URL, such as https://HOST/v1"))
        variables = {"OPENAI_BASE_URL": f"{{url}}{path}", "OPENAI_API_BASE": f"{{url}}{path}"}
        variables |= {"AZURE_OPENAI_ENDPOINT": "{url}", "AZURE_API_BASE": "{url}", "ANTHROPIC_BASE_URL": "{url}"}
        secret = None
        if name.endswith(_AZURE):
            secret = "AZURE_OPENAI_API_KEY"
            self.secrets[secret] = Secret(variable=secret, host=name)
        kept = Secret(variable=secret, host=name).placeholder if secret else _PLAIN_KEY
        keys = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "AZURE_OPENAI_API_KEY", "AZURE_API_KEY")
        variables |= dict.fromkeys(keys, kept)
        paths: tuple[str, ...] = ()
        if not is_loopback(address):
            paths = tuple(f"{path}/{end}" for end in ("chat/completions", "responses", "embeddings", "models"))
            if name.endswith(_AZURE):
                paths += tuple(f"/openai/deployments/*/{end}" for end in ("chat/completions", "embeddings"))
        self.add_host(Host(name=name, paths=paths, variables=variables))
        return Role(host=name, path=f"{path}/chat/completions", model=parts.fragment or None, secret=secret)

    def add_host(self, host: Host) -> None:
        """Grant a host; one that is granted twice has the paths of both."""
        before = self.hosts.get(host.name)
        if before is not None:
            paths = (*before.paths, *host.paths) if before.paths and host.paths else ()
            host = Host(name=host.name, paths=tuple(dict.fromkeys(paths)), variables=host.variables | before.variables)
        self.hosts[host.name] = host

    def add_secret(self, text: str) -> None:
        name, at, host = text.partition("@")
        if not at:
            host = next((one.host for one in PROVIDERS.values() if one.secret == name), "")
        if not _VARIABLE.fullmatch(name) or not host:
            raise InputError(
                Message(Setting("judges.secret"), " is NAME@HOST: a variable's name, not its value, and who is sent it")
            )
        if host not in self.hosts:
            step = Setting("judges.allow_host", [host])
            raise InputError(Message(Setting("judges.secret", [text]), ": this host is not allowed; allow it: ", step))
        self.secrets[name] = secret = Secret(variable=name, host=host)
        granted_host = self.hosts[host]
        variables = {
            key: secret.placeholder if value == _PLAIN_KEY else value for key, value in granted_host.variables.items()
        }
        self.hosts[host] = granted_host.model_copy(update={"variables": variables})
        self.roles = {
            role: one.model_copy(update={"secret": name}) if one.host == host and one.secret is None else one
            for role, one in self.roles.items()
        }


def _budget(text: str | None) -> JudgeBudget:
    parts: dict[str, float | int] = {}
    for part in (text or "").split(",") if text else ():
        name, _, number = part.strip().partition("=")
        found = _NUMBER.fullmatch(number)
        value = float(found[1]) * _UNITS[found[2]] if found else math.nan
        whole = name in ("requests", "tokens")
        if name not in JudgeBudget.model_fields or not found or (whole and value != int(value)):
            setting = Setting("judges.budget", text)
            raise InputError(Message(setting, ": ", repr(printable(part, 40)), " is not requests=N, tokens=N or usd=N"))
        parts[name] = int(value) if whole else value
    return JudgeBudget.model_validate(parts)


def _price(text: str) -> tuple[str, Price]:
    model, _, both = text.rpartition("=")
    asked, _, answered = both.partition("/")
    try:
        price = Price(input=float(asked), output=float(answered))
    except ValueError:
        model = ""
    if not model:
        setting = Setting("judges.judge_price", [text])
        raise InputError(Message(setting, " is not MODEL=IN/OUT, in US dollars for a million tokens"))
    return model, price


def with_judges(config: SandboxConfig, judges: Judges | None, evaluator: Evaluator, where: str) -> SandboxConfig:
    """
    Return the config with what is granted to this evaluator.

    Args:
        config: What the sandbox is to allow beside.
        judges: What is granted; None: nothing.
        evaluator: Whose header may wish for hosts.
        where: Its file, for messages.

    Raises:
        UnsupportedConfigError: It wishes for more, or what is allowed beside would undo it.
    """
    names = {host.name for host in judges.hosts} if judges else set()
    if not config.network and (lacking := [host for host in evaluator.hosts if host not in names]):
        known = next((name for name, one in PROVIDERS.items() if one.host == lacking[0]), None)
        step = Setting("judges.judge", [known]) if known else Setting("judges.allow_host", [lacking[0]])
        raise UnsupportedConfigError(
            Message(f"{where} asks for the host {printable(lacking[0], 80)}, which nobody allows yet; allow it: ", step)
        )
    if judges is None:
        return config
    if config.network:
        raise UnsupportedConfigError(
            Message("with ", Setting("sandbox.network", True), " a script needs no judge's key; leave one of them out")
        )
    _refuse_inner_keys(config.env, judges)
    door = needs_door(evaluator, judges) or bool(evaluator.hosts)
    return config.model_copy(update={"judges": judges.model_copy(update={"door": door})})


def with_rounds(config: SandboxConfig, evaluator: Evaluator, on_cluster: bool) -> SandboxConfig:
    """
    Return the config; where this machine serves the script's clients no address, they are answered in their process.

    Raises:
        UnsupportedConfigError: They cannot be: the script is no Python, or takes all rows of a batch at once.
    """
    able = find(config.backend).capabilities
    if config.judges is None or (able.judges and not on_cluster):
        return config
    if evaluator.language != "python" or is_batched(evaluator):
        here = ["leave ", Setting("on"), " out"] if on_cluster else ["choose ", Setting("sandbox.backend", "process")]
        words = "a script that takes lists of rows has no way to a judge from another machine: "
        if evaluator.language != "python":
            words = "a TypeScript script's own client has no way to a judge from another machine: "
            words += f"ask by {ASKING[evaluator.language]}, which works there, or "
        raise UnsupportedConfigError(Message(words, *here))
    judges = config.judges.model_copy(update={"door": False, "beside": False, "rounds": True})
    return config.model_copy(update={"judges": judges})


def _refuse_inner_keys(env: Iterable[str], judges: Judges) -> None:
    known = {one.secret: one.host for one in PROVIDERS.values()} | {one.variable: one.host for one in judges.secrets}
    for name in env:
        if name in known:
            provider = next((key for key, one in PROVIDERS.items() if one.secret == name), None)
            step = (
                Setting("judges.judge", [provider])
                if provider is not None
                else Setting("judges.secret", [f"{name}@{known[name]}"])
            )
            raise UnsupportedConfigError(
                Message(Setting("sandbox.env", [name]), " would show the script the key; in its place write ", step)
            )


def needs_door(evaluator: Evaluator, judges: Judges | None) -> bool:
    """Say whether the evaluator's own clients ask, at an address in its box: it does not ask by `evalcell_judge`."""
    return judges is not None and evaluator.evaluates and replies_name(evaluator) is None
