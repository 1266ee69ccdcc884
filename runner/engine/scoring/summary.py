"""Summaries of results: counts, and statistics with the number of rows behind them. `tally` adds them up."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from runner.core.types import Direction, ErrorKind, OutputConfig
from runner.engine.scoring.figures import Figures
from runner.engine.scoring.histogram import Histogram
from runner.engine.scoring.interval import wilson
from sandboxes.record import Record

EXTRACTION_MARK = " (JSON taken out of the text)"
"""How an explanation ends where a template took the JSON out of a fence or prose."""


class Stats(Record):
    """
    The statistics of one output. Mean, median, min and max are None if `count` is 0.

    Rows that failed or were lost are not included.
    """

    count: int = 0
    """Rows with a score: the denominator of everything here but the labels."""
    mean: float | None = None
    median: float | None = None
    min: float | None = None
    max: float | None = None
    ci_low: float | None = None
    """
    The ends of the 95 % interval on the mean: Wilson's where all scores are 0 or 1, else Student's, cut at the bounds
    that the script declares.
    """
    ci_high: float | None = None
    threshold: float | None = None
    direction: Direction = "none"
    passed: int | None = None
    """Rows whose score is at the threshold or better. None without a threshold or a direction."""
    labels: dict[str, int] = Field(default_factory=dict)
    """Rows by label, the most frequent first; a very long label is cut."""
    other_labels: int = 0
    """Rows with other labels: only a limited number of labels is counted by name."""
    histogram: Histogram | None = None
    """None if `count` is 0."""

    @property
    def pass_rate(self) -> float | None:
        """The share of the rows with a score that passed."""
        return self.passed / self.count if self.passed is not None and self.count else None

    @property
    def pass_rate_ci_low(self) -> float | None:
        """The lower end of Wilson's 95 % interval on the pass rate."""
        return wilson(self.passed, self.count)[0] if self.passed is not None and self.count else None

    @property
    def pass_rate_ci_high(self) -> float | None:
        """The upper end."""
        return wilson(self.passed, self.count)[1] if self.passed is not None and self.count else None


class GroupStats(Stats):
    """The statistics of the only or first output in the rows with one value of a column."""

    rows: int = 0
    """All of them, whatever their outcome."""
    scored: int = 0
    abstained: int = 0
    failed: int = 0
    lost: int = 0


class ErrorCount(Record):
    """The rows with one kind of error, with the first of them as the example."""

    kind: ErrorKind
    count: int
    example: str
    """A row's id."""
    message: str


class Counts(Record):
    """The evaluator, the sandbox, and the rows by outcome."""

    evaluator: str = ""
    version: str = ""
    sandbox: str = ""
    rows: int = 0
    """All rows, whatever their outcome."""
    scored: int = 0
    abstained: int = 0
    failed: int = 0
    lost: int = 0


class GateResult(Record):
    """The result of one gate."""

    gate: str
    """The gate as it was written, or `max-failed` and its value."""
    verdict: Literal["passed", "failed", "unjudged"]
    value: float | None = None
    """The metric's value. None if there was none, or too many rows failed or were lost."""
    reason: str = ""
    """Why it did not pass."""
    missing_rows: bool = False
    """True if failed or lost rows are why it could not be judged."""
    required: bool = False
    """True if the gate is what must be true, and not what must not."""
    abstained: int = 0
    """The rows that abstained, and are in no score."""
    unscored: int = 0
    """These rows and, if the gate is on scores, those with a label alone or a score for another output alone."""

    @property
    def calls_for_words(self) -> bool:
        """True if there is something to say of it: it did not pass, or rows without a score stand beside it."""
        return self.verdict != "passed" or bool(self.abstained or self.unscored)


class ModelUsage(Record):
    """What one model was asked, by the name that requests have."""

    calls: int
    replayed: int
    """Of the calls."""
    tokens: int
    usd: float


class JudgeUsage(Record):
    """What the judges of a run were asked, in this run alone where it goes on with an earlier one."""

    calls: int
    """Answers, replayed ones too."""
    requests: int
    """What was sent, tries that failed too."""
    tokens: int
    usd: float
    """By the prices that were given."""
    estimated: int
    """Requests whose tokens and costs no answer said; the most that they may be counts."""
    replayed: int
    refused: int
    """Calls that the budget did not allow."""
    failed: int
    """Calls without an answer: the judge was down for good, refused the key, or a replay lacked them."""
    models: dict[str, ModelUsage] = Field(default_factory=dict)
    """Of the answers, by model; what failed tries cost is in the sums alone."""


class RepeatPass(Record):
    """Whether k tries of a row pass, by its repeats: means over rows, with 95 % intervals over rows."""

    k: int
    pass_at: float
    """pass@k: the share of rows of which one of k tries passes, at least."""
    pass_at_ci_low: float | None = None
    pass_at_ci_high: float | None = None
    pass_all: float
    """pass^k: the share of which all of k do."""
    pass_all_ci_low: float | None = None
    pass_all_ci_high: float | None = None


class EarlyStop(Record):
    """When the verdict of a run was sure, if it was to stop then. docs/how-to/stop-when-sure.md."""

    row: int
    """Rows that count, in the order in which they were scored."""
    rows: int
    """All rows of the dataset."""
    scored: int
    """Rows that were scored: some more were running when it was sure. They are written, and do not count."""
    sure: bool
    """True if the run stopped. False: it was not sure before its last row."""
    rules: tuple[str, ...] = ()
    """How it knew: `arithmetic`, `bets on rows`, `bets on pairs` or `five looks`."""
    alpha: float | None = None
    """The most that the probability of a wrong verdict is, on either side. None: arithmetic, which is never wrong."""
    tests: int = 1
    """Gates that share it where one of them fails: those of all runs of a command, but for those that failed before."""
    ci_low: float | None = None
    """The ends of the 95 % interval on the mean of all rows, by the first gate on scores."""
    ci_high: float | None = None
    judge_calls_saved: int | None = None
    """About as many calls of judges were not made. None where no judge was asked."""


class Summary(Figures, Stats, Counts):
    """The summary of all results: counts, the statistics of the only or first output, the figures of `aggregate`."""

    outputs: dict[str, Stats] = Field(default_factory=dict)
    """Each output's statistics by name, with the first one's, if the outputs have names."""
    by_column: str | None = None
    """The column that there are figures by."""
    by: dict[str, GroupStats] = Field(default_factory=dict)
    """By its values, the worst mean first; empty for a column with more than 200 of them."""
    errors: tuple[ErrorCount, ...] = ()
    """The most frequent first."""
    repeat: int = 1
    """The number of results of each row; with several, all figures are of rows, each with the mean of its scores."""
    unstable: int | None = None
    """Rows whose results differ from each other. None where each row has one."""
    unstable_rate: float | None = None
    """Their share of all rows."""
    repeat_passes: tuple[RepeatPass, ...] = ()
    """pass@k and pass^k, of the only or first output; empty without repeats, or where nobody knows what passes."""
    extracted: int = 0
    """Rows whose JSON stood in a fence or in prose, and was taken out of it: templates say so, by their `extract`."""
    cached: int | None = None
    """Results that were taken from the score cache. None without it."""
    judges: JudgeUsage | None = None
    """None where no judge may be asked."""
    gates: tuple[GateResult, ...] = ()
    """The results of the run's gates; empty before the last row is done."""
    stop: EarlyStop | None = None
    """None where the run was not to stop when it is sure."""
    complete: bool = True
    """False if the dataset could not be read to its end."""
    seconds: float | None = None
    """The time in which the rows were scored, without opening the sandbox."""
    rows_per_second: float | None = None

    @property
    def judged(self) -> bool:
        """Whether there is any figure: a row was scored, or all of them together."""
        return bool(self.scored or self.aggregates)


def passes(score: float, config: OutputConfig | Stats | None) -> bool | None:
    """Return true if the score is at the threshold or better. None if the config has no threshold or direction."""
    if config is None or config.threshold is None or config.direction == "none":
        return None
    return score >= config.threshold if config.direction == "maximize" else score <= config.threshold
