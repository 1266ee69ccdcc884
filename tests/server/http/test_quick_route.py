"""The short way of a request for a few rows."""

from __future__ import annotations

import pytest
from fastapi import APIRouter, Request
from pydantic import BaseModel

from runner.server.http.v1.parts import Here, QuickRoute


async def other(body: BaseModel, request: Request, service: Here, wait: bool = False) -> BaseModel:
    return body


def test_a_function_that_depends_on_more_is_refused_when_the_server_is_made() -> None:
    """The short way would not give it what FastAPI gives."""
    with pytest.raises(TypeError, match="other must take body, request and service, and nothing else"):
        APIRouter().add_api_route("/other", other, methods=["POST"], route_class_override=QuickRoute)
