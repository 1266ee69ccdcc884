# /// script
# requires-python = ">=3.11"
# dependencies = []
#
# [tool.evalcell.output]
# kind = "categorical"
# labels = {"true" = 1.0, "false" = 0.0}
# direction = "maximize"
#
# [tool.evalcell.mapping]
# text = "output"
#
# [tool.evalcell.parameters]
# words = {type = ["string", "any"], description = "What to look for, separated by commas."}
# text = {type = "any", description = "Where to look."}
# case_sensitive = {type = "boolean", default = false, description = "Whether upper and lower case differ."}
# require_all = {type = "boolean", default = false, description = "Whether every word must be there, or any one."}
# ///
"""
Whether a text contains one of some words, or all of them.

`words` is one text with commas between the words, and what white space stands around each does not belong to it. A
word is found anywhere, also inside a longer one; a word with a comma in it cannot be looked for. Without any word the
label is `false`, with `require_all` too. Without `case_sensitive`, both sides are compared as `str.lower` writes them.
Values that are not text are taken as `str` writes them.

Source: the built-in evaluator `contains` of Arize Phoenix.
"""

from templates.parts.cut import cut


def evaluate(words: object, text: object, case_sensitive: bool = False, require_all: bool = False) -> dict[str, object]:
    wanted = [word.strip() for word in str(words).split(",") if word.strip()]
    if not wanted:
        return {"label": "false", "score": 0.0, "explanation": "No valid words were provided to check."}
    whole = str(text)
    searched = whole if case_sensitive else whole.lower()
    there = [(word if case_sensitive else word.lower()) in searched for word in wanted]
    found = all(there) if require_all else any(there)
    told = explanation(wanted, there, found, require_all, whole)
    return {"label": "true" if found else "false", "score": 1.0 if found else 0.0, "explanation": told}


def explanation(wanted: list[str], there: list[bool], found: bool, require_all: bool, text: str) -> str:
    start = {
        (True, True): "All of the words",
        (True, False): "Not all of the words",
        (False, True): "One or more of the words",
        (False, False): "None of the words",
    }[require_all, found]
    told = f"{start} [{', '.join(wanted)}] were found in the text: '{cut(text)}'."
    if require_all == found:
        return told
    named = ", ".join(word for word, is_there in zip(wanted, there, strict=True) if is_there == found)
    return f"{told} {'Matched' if found else 'Missing'}: {named}"
