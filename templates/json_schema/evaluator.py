# /// script
# requires-python = ">=3.11"
# dependencies = ["jsonschema==4.26.0"]
#
# [tool.evalcell.output]
# kind = "categorical"
# labels = {valid = 1.0, invalid = 0.0}
# direction = "maximize"
#
# [tool.evalcell.parameters]
# schema = {type = ["object", "boolean", "string"], description = "A JSON Schema, or its JSON text."}
# parse_strings = {type = "boolean", default = true, description = "Whether an output that is text is parsed as JSON."}
#
# [tool.evalcell.parameters.extract]
# type = "string"
# default = "fence"
# choices = ["whole", "fence", "first", "last"]
# description = "What of a text is read as JSON: all of it, its only Markdown fence, its first or last object or array."
# ///
"""
Whether a JSON document keeps to a JSON Schema; the explanation lists what does not, each with its JSON Pointer.

An output that is text is parsed as JSON first, or what `extract` takes out of it, unless `parse_strings` is false.
Where it is no JSON, nests too deeply or has a number of more than 4,300 digits, the label is `invalid`. NaN
and Infinity are no JSON. The schema is one of draft 2020-12, unless its `$schema` names draft 3, 4, 6, 7 or 2019-09.
Keywords that the draft does not have are ignored, as it asks, and `format` is a remark that nothing checks. A `$ref`
reaches what is in the schema itself and the drafts' own meta-schemas; nothing is ever fetched.

A schema that is wrong itself, refers to something that is not there or to an unknown draft is an error, not a verdict;
so is an output that nests too deeply for the schema. `pattern` is an expression of Python's `re`, which has no
`\\p{L}`; numbers are doubles, so 0.3 is no multiple of 0.1.

Source: JSON Schema, draft 2020-12; the validation is the package jsonschema's.
"""

import json
from functools import lru_cache
from itertools import islice

from jsonschema import Draft202012Validator, SchemaError, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from templates.parts.json_text import extraction_note, find_json, parse_json

SHOWN_ERRORS = 3
COUNTED_ERRORS = 100
SHOWN_CHARACTERS = 200


def evaluate(output: object, schema: object, parse_strings: bool = True, extract: str = "fence") -> dict[str, object]:
    validator = compile_schema(schema if isinstance(schema, str) else json.dumps(schema))
    try:
        part = find_json(output, extract) if parse_strings else output
        document = parse_json(part, "the output") if parse_strings else output
    except ValueError as error:
        return {"label": "invalid", "score": 0.0, "explanation": f"Failed to parse JSON: {error}"}
    try:
        violations = list(islice(validator.iter_errors(document), COUNTED_ERRORS))
    except Unresolvable as error:
        raise ValueError(f"`schema` refers to {error.ref!r}, which is not in it; nothing is fetched") from None
    except RecursionError:
        raise ValueError("the output is nested too deeply, or `schema` refers to itself without end") from None
    if not violations:
        return {
            "label": "valid",
            "score": 1.0,
            "explanation": f"The output keeps to the schema.{extraction_note(output, part)}",
        }
    count = f"{len(violations)}{' or more' if len(violations) == COUNTED_ERRORS else ''}"
    first = "; ".join(map(describe_error, violations[:SHOWN_ERRORS]))
    more = "; …" if len(violations) > SHOWN_ERRORS else ""
    return {
        "label": "invalid",
        "score": 0.0,
        "explanation": f"{count} violation(s): {first}{more}{extraction_note(output, part)}",
    }


@lru_cache(maxsize=16)
def compile_schema(text: str) -> Validator:
    """Raises ValueError for a schema that cannot be used."""
    schema = parse_json(text, "`schema`")
    if not isinstance(schema, dict | bool):
        raise ValueError("`schema` must be an object, or true or false")
    draft = named_draft(schema)
    try:
        draft.check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"`schema` is no JSON Schema: {describe_error(error)}") from None
    # With a registry of its own, the package fetches nothing; left to itself, it would fetch what a $ref names.
    return draft(schema, registry=Registry())


def named_draft(schema: dict[str, object] | bool) -> type[Validator]:
    """By `$schema`, which the package would pass over if it does not know it."""
    name = schema.get("$schema") if isinstance(schema, dict) else None
    draft: type[Validator] | None = Draft202012Validator
    if name is not None:
        draft = validator_for(schema, default=None) if isinstance(name, str) else None
    if draft is None:
        raise ValueError("`schema` names an unknown draft as its $schema; leave it out for draft 2020-12")
    return draft


def describe_error(error: ValidationError | SchemaError) -> str:
    steps = (str(step).replace("~", "~0").replace("/", "~1") for step in error.absolute_path)
    place = "".join(f"/{step}" for step in steps) or "the whole"
    message = error.message
    return f"{place}: {message if len(message) <= SHOWN_CHARACTERS else message[: SHOWN_CHARACTERS - 1] + '…'}"
