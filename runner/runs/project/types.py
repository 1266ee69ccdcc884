"""What `evalcell.toml` may say. Each key is the option of `evalcell run` of the same name, with `_` for `-`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, create_model, model_validator

from runner.core.entry_points import settings_of
from runner.core.setting_types import model_field
from runner.core.settings import SETTINGS, as_texts, value_of
from sandboxes.base import Model


def _share(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _key(name: str) -> tuple[Any, Any]:
    """The type of a key and its default. One text may stand for a list, and a number for a share of rows."""
    kind, default = model_field(name)
    if value_of(name).many:
        kind = Annotated[kind, BeforeValidator(as_texts)]
    if name in ("max_failed", "max_abstained"):
        kind = Annotated[kind, BeforeValidator(_share)]
    return kind, default


class _Entry(Model):
    """How rows are scored and judged. Above all runs: what each of them says, unless it says otherwise."""

    dataset: str | None = None
    """A path, or `demo`."""
    evaluator: str | None = None
    """A script's path, or a template's name."""
    evaluators: Annotated[tuple[str, ...] | dict[str, str] | None, BeforeValidator(as_texts)] = None
    """Several of them, or a table of names and evaluators."""

    @model_validator(mode="after")
    def _one_way(self) -> _Entry:
        if self.evaluator is not None and self.evaluators is not None:
            raise ValueError("give `evaluator` for one or `evaluators` for several, not both")
        return self

    if TYPE_CHECKING:

        def __getattr__(self, key: str) -> Any: ...

    def own_settings(self) -> dict[str, Any]:
        """The settings that it has, by name."""
        return {name: getattr(self, name) for name in SETTINGS if name in self.model_fields_set}

    def over(self, above: _Entry) -> Settings:
        """These settings, and those above where these say nothing. The tables `map`, `set` and `file` are joined."""
        mine, theirs = ({name: getattr(one, name) for name in one.model_fields_set} for one in (self, above))
        if "evaluator" in mine or "evaluators" in mine:
            theirs = {name: value for name, value in theirs.items() if name not in ("evaluator", "evaluators")}
        theirs = {name: value for name, value in theirs.items() if name not in ("run", "datasets")}
        joined: dict[str, Any] = {
            name: {**theirs[name], **mine[name]} for name in ("map", "set", "file") if name in mine and name in theirs
        }
        return Settings.model_construct(**{**theirs, **mine, **joined})


class Columns(Model):
    """What a dataset calls what evaluators take: the column, or path, of each."""

    output: str | None = None
    reference: str | None = None
    input: str | None = None
    metadata: str | None = None
    context: str | None = None

    def named(self) -> dict[str, str]:
        """Return those that are there, by their roles."""
        return {name: getattr(self, name) for name in self.model_fields_set if getattr(self, name) is not None}


class NamedDataset(Model):
    """A dataset that runs call by its name, and how its columns are to be taken."""

    path: str
    """A path, or `demo`."""
    columns: Columns = Columns()
    """Its columns by their roles, for each evaluator; a run's `map` takes precedence."""


if TYPE_CHECKING:
    Settings = _Entry
else:
    Settings = create_model(
        "Settings", __base__=_Entry, __doc__=_Entry.__doc__, **{n: _key(n) for n in settings_of("evalcell.toml")}
    )


class Project(Settings):
    """The whole file. Its keys are for all runs; a table `[run.NAME]` for each run has its own."""

    datasets: dict[str, NamedDataset] = Field(default_factory=dict)
    """Datasets by the names that `dataset` may give them."""
    run: dict[str, Settings] = Field(default_factory=dict)
    """The runs, by name. Without any, the file is one run, called `default`."""

    def entries(self) -> dict[str, Settings]:
        """Return each run with what it takes over."""
        runs = self.run or {"default": Settings()}
        return {name: one.over(self) for name, one in runs.items()}

    def path_of(self, dataset: str | None) -> str:
        """Return the path of the dataset that a run names."""
        return self.datasets[dataset].path if dataset in self.datasets else dataset or ""

    def columns_of(self, dataset: str | None) -> dict[str, str]:
        """Return its columns by their roles."""
        return self.datasets[dataset].columns.named() if dataset in self.datasets else {}
