"""What an audit of a script that asks a judge costs, foreseen from the first of its calls that asks one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from runner.core.errors import InputError
from runner.core.text import json_text
from runner.engine.scoring.summary import JudgeUsage, ModelUsage
from sandboxes.judges.grant import JudgeBudget, Judges
from sandboxes.words.wording import Message, Setting

_PER_TOKEN = 4
"""Characters of a token, about, in texts of any language that has an alphabet."""


def foresee_usage(
    first: JudgeUsage, judges: Judges | None, calls: int, tried: Any, outputs: Iterable[Any]
) -> ModelUsage | None:
    """
    Return about what all calls ask judges; None where the first one was answered from a record.

    Nobody knows before how long answers are, so it is no bound of tokens and dollars.

    Args:
        first: What the first call asked.
        judges: What is granted, with prices.
        calls: All calls, that one too.
        tried: Its output.
        outputs: Those of the others: what is longer has more tokens.
    """
    if first.calls == first.replayed:
        return None
    known = _length(tried)
    longer = sum(max(0, _length(output) - known) for output in outputs) // _PER_TOKEN * first.calls
    prices = {} if judges is None else judges.prices
    price = next((prices[model].input for model in first.models if model in prices), 0.0)
    return ModelUsage(
        calls=first.calls * calls,
        replayed=0,
        tokens=first.tokens * calls + (longer if first.tokens else 0),
        usd=first.usd * calls + longer * price / 1e6,
    )


def refuse_spending(foreseen: ModelUsage, budget: JudgeBudget) -> None:
    """Raise InputError where the budget has less: an audit that it ends proves nothing, and is paid."""
    for name, needed in (("requests", foreseen.calls), ("tokens", foreseen.tokens), ("usd", foreseen.usd)):
        most = getattr(budget, name)
        if most is not None and needed > most:
            shown = f"{needed:,.2g}" if name == "usd" else f"{needed:,}"
            raise InputError(
                Message(
                    f"the audit may take {shown} {'US dollars' if name == 'usd' else name} of judges, and the budget "
                    f"has {most:,}; only its first call was made. Raise {name}=, or plant in fewer rows: ",
                    Setting("sample", 2),
                )
            )


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str) else len(json_text(value))
