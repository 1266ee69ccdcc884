"""Opik's online evaluation rules in Python: what its backend asks, and what it wants to hear."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict

from runner.core.text import whole_json
from runner.server.service.errors import ServiceError
from runner.server.service.protocols.calls import ScriptFault, call_wrapper, within, wrapper_text, wrapping
from runner.server.service.service import Service
from runner.server.service.types import EvaluateRequest
from sandboxes.base import MB, Limits

ANSWER_SECONDS = 10.0
"""Opik asks again after what comes later."""
CALL_SECONDS = 3.0
"""As in Opik's own backend."""
_LIMITS = Limits(timeout=CALL_SECONDS, load_timeout=120, memory=1024 * MB, result=2 * MB)


class RuleRequest(BaseModel):
    """One evaluation by a rule."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    code: Any = None
    data: dict[str, Any] | list[Any] | None = None
    type: str | None = None


class RuleScore(BaseModel):
    """One score; without a value, or with `scoring_failed`, Opik does not store it."""

    name: str
    value: float | None
    reason: str | None
    scoring_failed: bool


class RuleReply(BaseModel):
    """The scores of a metric."""

    scores: list[RuleScore]


async def score_rule(service: Service, request: RuleRequest) -> RuleReply:
    """
    Run the metric once.

    Raises:
        ServiceError: For what is wrong with the code or its result, and what `Service.evaluate` raises.
    """
    for name in ("code", "data"):
        if getattr(request, name) is None:
            raise ServiceError("malformed", f"Field '{name}' is missing in the request")
    if not isinstance(request.code, str):
        raise ServiceError("malformed", "Field 'code' must be a string")
    asked = EvaluateRequest(
        source=wrapping(wrapper_text("opik.py"), "code", "data", "kind", packages='["opik"]'),
        dialect="native",
        rows=[{"code": request.code, "data": request.data, "kind": request.type}],
        limits=_LIMITS,
    )
    try:
        found = json.loads(await within(ANSWER_SECONDS, call_wrapper(service, asked)))
        if "error" in found:
            raise ServiceError("malformed", str(found["error"]))
        return RuleReply.model_validate(whole_json(found))
    except ScriptFault as fault:
        if fault.kind == "timeout":
            raise ServiceError("busy", str(fault), status=504) from None
        why = f"The provided 'code' and 'data' fields can't be evaluated: {fault}"
        raise ServiceError("malformed", why) from None
    except (ValueError, TypeError, RecursionError):
        raise ServiceError("malformed", "the code changed what its result is told by") from None
