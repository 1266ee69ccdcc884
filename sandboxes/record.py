"""
Frozen values whose fields are checked. pydantic, whose import takes longer than ten rows, is loaded when it is needed.

Values that fit the annotations as they are need no pydantic; `quick` says which. All others are left to it: it converts
them or says what is wrong. So are JSON and JSON schemas. docs/decisions/0035 has the reasons.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, cast, dataclass_transform

from sandboxes.exact import exact
from sandboxes.quick import Checks, FieldOptions, Hook, UnsureError, checks, is_of_pydantic
from sandboxes.quick import Made as Made
from sandboxes.quick import field_serializer as field_serializer
from sandboxes.quick import field_validator as field_validator
from sandboxes.quick import model_validator as model_validator
from sandboxes.unset import Empty, Given

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_core import SchemaSerializer, SchemaValidator

_LOCK = RLock()


class _Built(NamedTuple):
    schema: Any
    validator: SchemaValidator
    serializer: SchemaSerializer


def Field(default: Any = ..., *, default_factory: Callable[[], Any] | None = None, **bounds: Any) -> Any:
    """A field's default, and its bounds by pydantic's names."""
    return FieldOptions(default, default_factory, bounds)


def first_problem(error: ValueError) -> Any:
    """The first problem that pydantic's ValidationError tells: a dict with `loc`, `msg` and more. Raises any other."""
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        raise error
    return error.errors()[0]


class _Described(type):
    @property
    def model_fields(cls) -> Mapping[str, Any]:
        """The fields, as pydantic describes them."""
        return _twin(cls).model_fields


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(Field,))
class Record(metaclass=_Described):
    """A frozen value that refuses unknown fields. Its methods are those of a pydantic model."""

    __slots__ = ("__dict__", "_given")
    # By these names pydantic makes, reads and writes its models; it does the same with these.
    __pydantic_extra__ = Empty()
    __pydantic_private__ = Empty()
    __pydantic_fields_set__ = Given()
    model_config: ClassVar[Any] = {"frozen": True, "extra": "forbid"}
    field_names: ClassVar[set[str]] = set()
    """The names of all fields; not to be changed."""
    _fields: ClassVar[dict[str, FieldOptions]] = {}
    _hooks: ClassVar[tuple[Hook, ...]] = ()
    _checks: ClassVar[Checks | None] = None
    _quick: ClassVar[bool] = True
    _own: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        said = inspect.get_annotations(cls)
        own: dict[str, Any] = {"__annotations__": said}
        fields = {}
        for name, kind in said.items():
            if str(kind).startswith(("ClassVar", "typing.ClassVar")):
                continue
            default = cls.__dict__.get(name, ...)
            if default is not ...:
                own[name] = default
                delattr(cls, name)
            fields[name] = default if isinstance(default, FieldOptions) else FieldOptions(default)
        hooks = []
        for name, value in list(cls.__dict__.items()):
            if isinstance(value, Hook):
                hooks.append(value)
                own[name] = value
                setattr(cls, name, value.function)
            elif is_of_pydantic(value):  # a decorator of its own, which only pydantic can apply
                own[name] = value
                cls._quick = False
        bases = [base for base in reversed(cls.__bases__) if issubclass(base, Record)]
        cls._fields = {name: one for base in bases for name, one in base._fields.items()} | fields
        cls._hooks = (*(hook for base in bases for hook in base._hooks), *hooks)
        cls.field_names, cls._own, cls._checks = set(cls._fields), own, None

    def __init__(self, /, **values: Any) -> None:
        """Check the values and set the fields. Raises pydantic's ValidationError."""
        if not _fill(self, values):
            _built(type(self)).validator.validate_python(values, self_instance=self)

    @classmethod
    def options(cls) -> Mapping[str, FieldOptions]:
        """Each field's default and bounds."""
        return cls._fields

    @classmethod
    def exact(cls, values: dict[str, Any]) -> Self | None:
        """An instance if the values need no conversion, which pydantic would accept in its strict mode as well."""
        made = cls.__new__(cls)
        return made if _fill(made, values) else None

    @classmethod
    def trusted(cls, values: dict[str, Any]) -> Self:
        """
        An instance from one value for every field, without validation; the dict must not be used again.

        For the few objects that each row has, from values that we made or checked. It takes a fraction of the time.
        """
        made = _new(cls)
        _set_values(made, values)
        return made

    @classmethod
    def model_construct(cls, **values: Any) -> Self:
        """An instance with these values and the defaults, without validation."""
        made = cls.trusted({**{n: o.value() for n, o in cls._fields.items() if not o.required}, **values})
        _set_named(made, set(values))
        return made

    @classmethod
    def model_validate(cls, value: Any, **how: Any) -> Self:
        """An instance from a dict or an instance. Raises pydantic's ValidationError."""
        if not how and type(value) is dict and all(type(name) is str for name in value):
            return cls(**value)
        if not how and isinstance(value, cls):
            return value
        made: Self = _built(cls).validator.validate_python(value, **how)
        return made

    @classmethod
    def model_validate_json(cls, text: str | bytes | bytearray, **how: Any) -> Self:
        """An instance from JSON. Raises pydantic's ValidationError."""
        return cast(Self, _built(cls).validator.validate_json(text, **how))

    def model_dump(self, **how: Any) -> dict[str, Any]:
        """The fields as a dict."""
        return cast("dict[str, Any]", _built(type(self)).serializer.to_python(self, **how))

    def model_dump_json(self, **how: Any) -> str:
        """The fields as JSON."""
        return _built(type(self)).serializer.to_json(self, **how).decode()

    @classmethod
    def model_json_schema(cls, **how: Any) -> dict[str, Any]:
        """The JSON schema."""
        from pydantic.json_schema import model_json_schema

        return model_json_schema(_twin(cls), **how)

    def model_copy(self, *, update: Mapping[str, Any] | None = None) -> Self:
        """A copy with some fields changed, which are not validated."""
        more = update or {}
        made = type(self).trusted({**self.__dict__, **more})
        _set_named(made, {*self.model_fields_set, *more})
        return made

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return _built(cls).schema

    @property
    def __pydantic_serializer__(self) -> SchemaSerializer:
        """By it pydantic writes an instance where a field's type says nothing."""
        return _built(type(self)).serializer

    @property
    def model_fields_set(self) -> set[str]:
        """The names of the fields that were given, and not left to their defaults."""
        return self.__pydantic_fields_set__

    def __setattr__(self, name: str, value: Any) -> None:
        from pydantic import ValidationError

        wrong: Any = {"type": "frozen_instance", "loc": (name,), "input": value}
        raise ValidationError.from_exception_data(type(self).__name__, [wrong])

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__ if type(self) is type(other) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), *(self.__dict__[name] for name in type(self)._fields)))

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        yield from self.__dict__.items()

    def __deepcopy__(self, memo: object) -> Self:
        return self  # pydantic would copy a default for each model that it is left to

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"

    def __getstate__(self) -> Any:
        return self.__dict__, self.model_fields_set

    def __setstate__(self, state: Any) -> None:
        _set_values(self, dict(state[0]))
        _set_named(self, state[1])


_new = object.__new__
# Setting slots directly takes half as long as `object.__setattr__`.
_set_values, _set_named = Record.__dict__["__dict__"].__set__, Record.__dict__["_given"].__set__


def _fill(made: Record, values: dict[str, Any]) -> bool:
    """Set all fields, if it is certain that pydantic would set the same."""
    kind = type(made)
    if not kind._quick:
        return False
    try:
        _set_values(made, _checked(kind, values))
        _set_named(made, set(values))
        for hook in kind._hooks:
            if hook.kind == "model_validator":
                hook.function(made)
    except (UnsureError, ValueError, AssertionError):
        return False
    return True


def _checked(kind: type[Record], values: dict[str, Any]) -> dict[str, Any]:
    """All fields' values. Raises UnsureError where only pydantic knows."""
    if kind._checks is None:
        kind._checks = checks(kind, kind._fields)
    if not values.keys() <= kind.field_names:
        raise UnsureError
    made = {}
    for name, options in kind._fields.items():
        if name in values:
            value = kind._checks[name](_hooked(kind, "before", name, values[name]))
            made[name] = _hooked(kind, "after", name, value)
        else:
            made[name] = options.value()
    return made


def _hooked(kind: type[Record], mode: str, name: str, value: Any) -> Any:
    for hook in kind._hooks:
        if hook.mode == mode and name in hook.names:
            value = hook.function.__get__(None, kind)(value)
    return value


def _twin(kind: Any) -> type[BaseModel]:
    """A pydantic model with the same fields, from which the schema is taken."""
    from pydantic import BaseModel

    with _LOCK:
        if (found := kind.__dict__.get("_twin_model")) is None:
            bases = tuple(_twin(base) for base in kind.__bases__ if issubclass(base, Record)) or (BaseModel,)
            own = {name: value.decorate() if isinstance(value, Hook) else value for name, value in kind._own.items()}
            own = {name: value.field() if isinstance(value, FieldOptions) else value for name, value in own.items()}
            about: dict[str, Any] = {name: getattr(kind, name) for name in ("__module__", "__qualname__", "__doc__")}
            if kind is Record:
                about["model_config"] = kind.model_config
            make: Any = type(BaseModel)
            found = kind._twin_model = make(kind.__name__, bases, {**about, **own})
        return cast("type[BaseModel]", found)


def _built(kind: Any) -> _Built:
    """The twin's schema as one of the class itself, and what validates and serialises by it."""
    if (found := kind.__dict__.get("_built_by_pydantic")) is None:
        from pydantic_core import SchemaSerializer, SchemaValidator

        with _LOCK:
            twin = _twin(kind)
            twin.model_rebuild()  # does nothing where no name was missing
            schema = _instead(exact(twin.__pydantic_core_schema__), twin, kind)
            found = _Built(schema, SchemaValidator(schema), SchemaSerializer(schema))
            kind._built_by_pydantic = found
    return cast(_Built, found)


def _instead(schema: Any, twin: type, kind: type) -> Any:
    if isinstance(schema, dict):
        return {name: kind if value is twin else _instead(value, twin, kind) for name, value in schema.items()}
    if isinstance(schema, list):
        return [_instead(value, twin, kind) for value in schema]
    return schema
