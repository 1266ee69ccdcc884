"""What an audit found, as frozen models."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from runner.engine.scoring.summary import GateResult, JudgeUsage, ModelUsage
from sandboxes.base import Model

Status = Literal["found", "clear", "allowed", "not applicable"]


class AuditOptions(Model):
    """How much an audit tries, and what it is held against."""

    sample: int | None = Field(default=None, ge=2, le=10_000)
    """Rows that outputs are planted in. None: 60, or 5 where a judge is asked."""
    allow: tuple[str, ...] = ()
    """Ids of findings that are known, such as `wrong.empty`."""
    mutants: int | None = Field(default=None, ge=0, le=2_000)
    """Changes of the script that are tried on its worked examples. None: 100, or none where a judge is asked."""
    labels: str | None = Field(default=None, max_length=1_000)
    """A column with what people say of each output: true or false, two words, or a number."""
    right: str | None = Field(default=None, max_length=200)
    """The label that means right, where words do not say."""
    cluster: str | None = Field(default=None, max_length=1_000)
    """A column; rows with the same value in it are not independent, such as answers to one question."""


class Witness(Model):
    """A row that shows it: what was planted, and what it got."""

    id: str
    output: Any = None
    """The planted output; long texts are cut."""
    reference: Any = None
    source: str | None = None
    """The row whose answer was planted."""
    score: float | None = None
    label: str | None = None


class Check(Model):
    """One question that was put to the grader."""

    id: str
    """Stable: `wrong.empty`."""
    status: Status
    words: str = ""
    """What was found, or why the check does not apply, in one line."""
    rows: int = 0
    """Rows that show it,"""
    of: int = 0
    """of so many that were tried."""
    witness: Witness | None = None


class Gap(Model):
    """A change of the script that no worked example notices, though it changes a result."""

    file: str | None = None
    """The module that has it, by its path from the script. None: the script itself."""
    line: int
    change: str
    """What was changed: `== -> !=`."""
    rows: int
    """Real rows of the audit with another result,"""
    of: int
    """of so many;"""
    planted: int
    """and rows with planted outputs."""
    id: str
    """The row that tells it apart."""
    result: str
    """What the script says of it, and"""
    mutant: str
    """what the changed script says."""
    example: dict[str, Any]
    """
    A line for the worked examples that would notice it.

    It expects what the script says now: read it before you paste it.
    """


class MutantScore(Model):
    """How many changes of the script its worked examples notice."""

    of: int = 0
    """Changes that there are, and"""
    tried: int = 0
    """those that were tried."""
    killed: int = 0
    """An example fails."""
    silent: int = 0
    """No result of any row changes: in no figure, as it may mean the same."""
    broken: int = 0
    """It does not load, or the sandbox lost it."""
    gaps: tuple[Gap, ...] = ()
    failing: tuple[str, ...] = ()
    """Examples that fail with the script as it is; they notice nothing."""
    why: str | None = None
    """Why none was tried."""

    @property
    def share(self) -> float | None:
        """killed / (killed + gaps)."""
        seen = self.killed + len(self.gaps)
        return self.killed / seen if seen else None


class Rate(Model):
    """A figure and its interval at 95 %."""

    value: float
    low: float
    high: float


class Disagreement(Model):
    """A row that people and the grader see differently."""

    id: str
    label: Any
    """What people say."""
    score: str
    """What the grader gave."""
    passes: bool
    """It is better for the grader than for people: a false pass."""


class Agreement(Model):
    """A grader beside people's labels. Rows without a score are in no figure, and are counted here."""

    column: str
    labelled: int
    """Rows with a label,"""
    of: int
    """of so many."""
    scored: int
    """Labelled rows with a score; the others"""
    abstained: int
    """have none because the grader gave none, or"""
    failed: int
    """because it failed."""
    clusters: int | None = None
    """Groups of rows that are not independent, if a column names them."""
    right: int | None = None
    """Scored rows that people call right, and"""
    wrong: int | None = None
    """wrong. None: their labels are numbers."""
    few: bool = False
    """Fewer than 30 rows of a class: there are no figures."""
    threshold: float | None = None
    """From this score on a row passes."""
    chosen: bool = False
    """It was chosen on these rows, as the script names none; so the figures flatter it."""
    true_passes: int | None = None
    false_passes: int | None = None
    false_fails: int | None = None
    true_fails: int | None = None
    tpr: Rate | None = None
    """The share of right rows that pass."""
    tnr: Rate | None = None
    """The share of wrong rows that do not."""
    kappa: Rate | None = None
    """Cohen's."""
    ac1: Rate | None = None
    """Gwet's, where fewer than 20 or more than 80 % of rows are right."""
    auc: Rate | None = None
    """The probability that a right row scores better than a wrong one."""
    rank: Rate | None = None
    """Spearman's correlation, where labels are numbers."""
    best_threshold: float | None = None
    """The threshold with the largest J = TPR + TNR - 1,"""
    youden: float | None = None
    """that J on these rows,"""
    optimism: float | None = None
    """and how much of it is to be expected of these rows only."""
    disagreements: tuple[Disagreement, ...] = ()
    """False passes first; at most 200."""

    @property
    def coverage(self) -> float:
        """The share of labelled rows with a score."""
        return self.scored / self.labelled


class Audit(Model):
    """What an audit of an evaluator found. Nothing here is a grade: each finding stands for itself."""

    evaluator: str
    version: str
    sandbox: str
    rows: int
    """Rows of the dataset that outputs were planted in."""
    of: int
    """Rows of the dataset."""
    seed: int
    planted: int
    """Rows with planted outputs, and"""
    calls: int
    """how many calls there were: a part of them is scored again."""
    failed: int
    """Calls without a score because they failed; they prove nothing."""
    error: str | None = None
    """Why one of them did: a lost one, if there is any."""
    checks: tuple[Check, ...]
    blind: tuple[Check, ...]
    """What it does not see: the changed output has full marks. Every sound grader has some."""
    strict: tuple[Check, ...]
    """What it treats as different, though people may not."""
    mutants: MutantScore | None = None
    """None: they were not asked for."""
    people: Agreement | None = None
    """None: no labels were named."""
    gates: tuple[GateResult, ...] = ()
    foreseen: ModelUsage | None = None
    """About what it was to ask judges, by its first call. None: it asks none, or they were answered from a record."""
    judges: JudgeUsage | None = None
    """What they were asked."""
    lower_taken: bool = False
    """A lower score was taken for the better one: nobody says which is, and right answers have the lowest."""
    no_verdict: str | None = None
    """Why the audit proves nothing."""

    def __repr__(self) -> str:
        """The verdict: all checks are a page."""
        found = ", ".join(check.id for check in self.findings) or "nothing found"
        return f"<Audit {self.evaluator}: {found if self.no_verdict is None else f'no verdict, {self.no_verdict}'}>"

    __str__ = __repr__

    @property
    def passed(self) -> bool:
        """True if it could judge, found nothing, and all that was required is met."""
        return self.no_verdict is None and not self.findings and all(gate.verdict == "passed" for gate in self.gates)

    @property
    def findings(self) -> tuple[Check, ...]:
        """The checks that found something that nobody allowed."""
        return tuple(check for check in self.checks if check.status == "found")
