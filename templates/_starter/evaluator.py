# /// script
# requires-python = ">=3.11"
# dependencies = []
#
# [tool.evalcell.output]
# kind = "categorical"
# labels = {match = 1, mismatch = 0}
#
# [tool.evalcell.parameters]
# output = {type = "string"}
# reference = {type = "string"}
# case_sensitive = {type = "boolean", default = true, description = "Whether upper and lower case differ."}
# ///
"""
Whether the output says what the reference says; white space around either does not count.
"""


def evaluate(output: str, reference: str, case_sensitive: bool = True) -> dict[str, object]:
    found, wanted = output.strip(), reference.strip()
    if not case_sensitive:
        found, wanted = found.lower(), wanted.lower()
    if found == wanted:
        return {"label": "match", "explanation": "The output is the reference."}
    return {"label": "mismatch", "explanation": "The output differs from the reference."}
