"""What the caller grants to scripts that ask judges, as plain data; keys are never in it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sandboxes.record import Record

Style = Literal["openai", "anthropic"]
"""The form of requests: OpenAI's chat completions, or Anthropic's messages."""


class Host(Record):
    """A host that scripts may reach, and what of it."""

    name: str
    """`api.openai.com`, always over TLS; or an address with scheme and port, such as `http://127.0.0.1:8000`."""
    paths: tuple[str, ...] = ()
    """The only paths that may be asked for; empty: all."""
    variables: dict[str, str] = Field(default_factory=dict)
    """What clients in a box read, such as `{"OPENAI_BASE_URL": "{url}/v1"}`; `{url}` is where the host is to be had."""


class Secret(Record):
    """A variable of the caller that holds a key, and the host that alone is sent it."""

    variable: str
    host: str

    @property
    def placeholder(self) -> str:
        """The text that scripts have in place of the key."""
        return f"evalcell-{self.variable}"


class Role(Record):
    """A judge by the name that scripts call it: `grader` of `grader=openai/gpt-5-mini`."""

    host: str
    path: str
    """That of requests, such as `/v1/chat/completions`."""
    style: Style = "openai"
    model: str | None = None
    """None: the script names one in its request."""
    secret: str | None = None
    """The variable of its key; None for a judge without one."""


class Price(Record):
    """What a model costs, in US dollars for a million tokens."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)


class JudgeBudget(Record):
    """What all exchanges of a run may use together. None: no bound."""

    requests: int | None = Field(default=None, ge=0)
    tokens: int | None = Field(default=None, ge=0)
    usd: float | None = Field(default=None, ge=0)


PORT = 8711
"""On the loopback of a box's own network: of the first host; the others follow."""


class Judges(Record):
    """What a run's scripts may ask, and within which bounds."""

    hosts: tuple[Host, ...] = ()
    secrets: tuple[Secret, ...] = ()
    env_file: str | None = None
    """A file of `NAME=value` lines in which keys are looked up before the environment."""
    budget: JudgeBudget = JudgeBudget()
    prices: dict[str, Price] = Field(default_factory=dict)
    """By the model's name."""
    in_flight: int = Field(default=16, ge=1, le=256)
    """Most exchanges at once."""
    judge_timeout: float = Field(default=120.0, gt=0, le=86_400)
    """Seconds of one exchange, with its retries."""
    record: str | None = None
    """The file that every exchange is written to, one line each."""
    replay: str | None = None
    """A file of `record` from which replies come. Nothing is sent, unless `record` is the same file."""
    door: bool = True
    """Whether clients in a box ask, at addresses of its own. A script that asks by `evalcell_judge` needs none."""
    shared: bool = False
    """Whether the budget is of all runs of this process with this budget together, as a server has it."""
    remembers: bool = False
    """Whether equal requests of this process are answered once: of dry runs, which are made again at each change."""
    goes_on: bool = False
    """Whether the run was interrupted: then its budget has what the record says that it used."""
    beside: bool = False
    """Whether the script's own clients ask, so that calls wait in the box: as many as `in_flight` run beside others."""
    rounds: bool = False
    """Whether the script's own clients are answered in its own process, and what they ask is sent between calls."""
    roles: dict[str, Role] = Field(default_factory=dict)
    """By the names that scripts call them; `judge` is that of a judge without a name."""

    def ports(self) -> dict[int, str]:
        """Return the hosts by the ports that a box has them on."""
        return {} if not self.door else {PORT + at: host.name for at, host in enumerate(self.hosts)}

    def box_variables(self) -> dict[str, str]:
        """Return the variables of scripts in a box: where the hosts are, and what stands for the keys."""
        found = {secret.variable: secret.placeholder for secret in self.secrets}
        for at, host in enumerate(self.hosts):
            url = f"http://127.0.0.1:{PORT + at}"
            found |= {name: text.replace("{url}", url) for name, text in host.variables.items() if name not in found}
        # The last keeps litellm from waiting for a list of prices on the internet.
        return found | {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
