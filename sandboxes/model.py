"""Frozen pydantic models, for what is read from outside. `record` has the same for what every run makes."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict

# Models are frozen; setting their slots directly takes half as long as `object.__setattr__`.
_set_values, _set_named, _set_extra, _set_private = (
    BaseModel.__dict__[name].__set__
    for name in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)


class Model(BaseModel):
    """A frozen model that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    field_names: ClassVar[set[str]]
    """The names of all fields; not to be changed."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        cls.field_names = set(cls.model_fields)

    @classmethod
    def trusted(cls, values: dict[str, Any]) -> Self:
        """
        An instance from one value for every field, without validation; the dict must not be used again.

        For the few objects that each row has, from values that we made or checked. It takes a fraction of the time.
        """
        made = cls.__new__(cls)
        _set_values(made, values)
        _set_named(made, cls.field_names)
        _set_extra(made, None)
        _set_private(made, None)
        return made
