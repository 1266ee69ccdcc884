# /// script
# requires-python = ">=3.11"
# dependencies = []
#
# [tool.evalcell.output]
# kind = "categorical"
# labels = {match = 1.0, no_match = 0.0}
# direction = "maximize"
#
# [tool.evalcell.parameters]
# pattern = {type = "string", description = "A regular expression, as Python's re reads them."}
# flags = {type = "string", default = "", description = "Any of i (case), m (lines), s (dot), x (verbose): \"im\"."}
# full_match = {type = "boolean", default = false, description = "Whether it must match all of the output."}
# group = {type = ["integer", "string", "null"], description = "The group that must equal the reference, if any."}
# ///
"""
Whether the output matches a regular expression, and with `group`, whether what it captures equals the reference.

The first match counts. `flags` are letters of Python's `re`: `i` for upper and lower case alike, `m` for `^` and `$` at
every line, `s` for a dot that matches line feeds too, `x` for white space and comments in the pattern. `group` is a
number or a name; its text must be the reference, or one of a list, character by character. Values that are not text are
taken as `str` writes them. A pattern, flag or group that cannot be used fails the row.

Source: Python's module re.
"""

import re

from templates.parts.cut import cut
from templates.parts.references import references

FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}


def evaluate(
    output: object,
    pattern: str,
    flags: str = "",
    full_match: bool = False,
    group: int | str | None = None,
    reference: object = None,
) -> dict[str, object]:
    compiled = compile_pattern(pattern, flags)
    found = (compiled.fullmatch if full_match else compiled.search)(str(output))
    if group is not None:
        return compare(compiled, found, group, reference)
    if found is None:
        return no_match(f"The pattern does not match{' the whole output' if full_match else ''}.")
    return {"label": "match", "score": 1.0, "explanation": f"The pattern matches '{cut(found[0])}'."}


def compile_pattern(pattern: str, flags: str) -> re.Pattern[str]:
    """Raises ValueError for a pattern that is none, and for an unknown flag."""
    chosen = re.RegexFlag(0)
    for letter in flags:
        if letter not in FLAGS:
            raise ValueError(f"`flags` may have the letters i, m, s and x, not '{letter}'")
        chosen |= FLAGS[letter]
    try:
        return re.compile(pattern, chosen)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"`pattern` is no regular expression: {error}") from None


def compare(
    compiled: re.Pattern[str], found: re.Match[str] | None, group: int | str, reference: object
) -> dict[str, object]:
    number = compiled.groupindex.get(group, -1) if isinstance(group, str) else int(group)
    if not 0 <= number <= compiled.groups:
        raise ValueError(f"the pattern has no group {group}")
    if reference is None:
        raise ValueError("`group` is compared with the reference, and this row has none")
    if found is None:
        return no_match("The pattern does not match.")
    captured = found[number]
    if captured is None:
        return no_match(f"Group {group} has no part in the match.")
    wanted = [str(one) for one in references(reference, captured)]
    if captured not in wanted:
        return no_match(f"Group {group} is '{cut(captured)}', not '{cut(wanted[0])}'.")
    return {"label": "match", "score": 1.0, "explanation": f"Group {group} is '{cut(captured)}', as the reference."}


def no_match(explanation: str) -> dict[str, object]:
    return {"label": "no_match", "score": 0.0, "explanation": explanation}
