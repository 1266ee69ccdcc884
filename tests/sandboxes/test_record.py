"""What a record is beside a model of pydantic."""

from __future__ import annotations

import pickle

import pydantic
import pytest

from sandboxes.base import Limits
from sandboxes.remote.config import RemoteConfig


def test_a_record_is_frozen() -> None:
    limits = Limits(timeout=2)
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        limits.timeout = 3.0
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        del limits.timeout
    assert hash(limits) == hash(Limits(timeout=2.0))
    assert limits != Limits()


def test_one_that_is_not_validated_is_as_one_that_is() -> None:
    trusted = Limits.trusted(dict(Limits(timeout=2)))
    assert trusted == Limits(timeout=2) == pickle.loads(pickle.dumps(trusted))
    assert trusted.model_dump_json() == Limits(timeout=2).model_dump_json()
    assert trusted.model_fields_set == set(Limits.model_fields)


def test_a_remote_config_is_checked_however_it_is_given() -> None:
    given = dict(RemoteConfig(backend="e2b"))
    assert RemoteConfig(**given) == RemoteConfig(backend="e2b")
    with pytest.raises(pydantic.ValidationError):
        RemoteConfig(**given | {"lifetime": -1})
