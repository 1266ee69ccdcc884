"""OpenRLHF's remote rewards, given by a saved evaluator."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from runner.core.errors import EvaluatorError
from runner.runs.export.scorer import row_number
from runner.server.service.base import call_in_thread
from runner.server.service.errors import ServiceError
from runner.server.service.protocols.stored_evaluator import score_rows
from runner.server.service.service import Service

ANSWER_SECONDS = 170.0
"""OpenRLHF waits for 180."""
MOST_QUERIES = 4096
_BEFORE = 64
"""Characters that special tokens may take before a prompt."""
_LEAST_REST = 8
"""Characters of a prompt that must be left where its beginning was cut off."""
_SPECIAL = re.compile(r"(?:\s*(?:</?s>|<\|[a-z0-9_▁]{1,40}\|>|<(?:eos|pad|end_of_turn)>))+\s*\Z", re.IGNORECASE)


class RewardRequest(BaseModel):
    """Prompts with their responses, as text with special tokens."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    query: list[str] = Field(max_length=MOST_QUERIES)
    prompts: list[str] = Field(max_length=MOST_QUERIES)
    labels: list[Any] = Field(max_length=MOST_QUERIES)


class RewardReply(BaseModel):
    """A number for each query."""

    rewards: list[float]
    scores: list[float]
    extra_logs: dict[str, list[float]] = Field(default_factory=dict)


async def give_rewards(
    service: Service, evaluator: str, request: RewardRequest, paths: Mapping[str, str]
) -> RewardReply:
    """
    Return the rewards of the queries.

    Raises:
        ServiceError: The lists have different lengths, a prompt is not in its query, or a row has no number.
    """
    if not len(request.query) == len(request.prompts) == len(request.labels):
        raise ServiceError("invalid-request", "`query`, `prompts` and `labels` have different lengths")
    rows = await call_in_thread(_rows, request)  # texts may be long, and others go on meanwhile
    if not rows:
        return RewardReply(rewards=[], scores=[])
    script, results = await score_rows(service, evaluator, rows, paths, ANSWER_SECONDS)
    try:
        rewards = [row_number(script, result) for result in results]
    except EvaluatorError as error:
        raise ServiceError("evaluator", str(error)) from None
    return RewardReply(rewards=rewards, scores=rewards)


def _rows(request: RewardRequest) -> list[dict[str, Any]]:
    return [
        {"output": completion(query, prompt), "input": prompt, "reference": label, "query": query}
        for query, prompt, label in zip(request.query, request.prompts, request.labels, strict=True)
    ]


def completion(query: str, prompt: str) -> str:
    """
    Return the response in a query: what follows the prompt, without the special tokens at its end.

    Of a prompt that was too long OpenRLHF has only the end in the query. Raises ServiceError where it is not there.
    """
    place = query.find(prompt, 0, len(prompt) + _BEFORE)
    if place >= 0:
        return _SPECIAL.sub("", query[place + len(prompt) :])
    if (length := _overlap(prompt, query)) >= _LEAST_REST:
        return _SPECIAL.sub("", query[length:])
    raise ServiceError("invalid-request", "a query does not begin with its prompt; send both as the tokenizer has them")


def _overlap(prompt: str, query: str) -> int:
    """How long the longest end of the prompt is that the query begins with (Knuth, Morris, Pratt 1977)."""
    text = [*query[: len(prompt)], None, *prompt]
    table = [0] * len(text)
    for at in range(1, len(text)):
        length = table[at - 1]
        while length and text[at] != text[length]:
            length = table[length - 1]
        table[at] = length + (text[at] == text[length])
    return table[-1]
