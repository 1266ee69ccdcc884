"""Frozen pydantic models, for what is read from outside. `record` has the same for what every run makes."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from sandboxes.exact import exact


class Model(BaseModel):
    """A frozen model that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return exact(handler(source))
