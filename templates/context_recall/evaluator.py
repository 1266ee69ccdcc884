# /// script
# requires-python = ">=3.11"
# dependencies = []
#
# [tool.evalcell.output]
# kind = "continuous"
# lower_bound = 0
# upper_bound = 1
# direction = "maximize"
#
# [tool.evalcell.mapping]
# contexts = "metadata.contexts"
# reference_contexts = "metadata.reference_contexts"
#
# [tool.evalcell.parameters.contexts]
# type = "any"
# description = "What was retrieved: a list, the first the best."
#
# [tool.evalcell.parameters.reference_contexts]
# type = "any"
# description = "What should have been: a list."
#
# [tool.evalcell.parameters.threshold]
# type = "number"
# minimum = 0
# maximum = 1
# default = 1
# description = "From which similarity on two texts are the same context; 1: only if they are equal."
# ///
"""
How many of the contexts that should have been retrieved were, from 0 to 1, in any order.

A reference context was retrieved if it is one of the contexts: the same text or id but for white space, or at least
`threshold` similar, 1 - Levenshtein(a, b) / length of the longer. One that stands there twice counts once. Nothing
retrieved scores 0. Without any reference context there is no score.

A context is a text, an id, or an object, of which its `id` counts, else its `text`, `page_content` or `content`.

Source: Ragas, Context Recall without a model: its formula, over string similarity and over ids.
"""

from templates.parts.contexts import alike, as_texts

SHOWN_TEXTS = 3
CHARACTERS = 60


def evaluate(contexts: object, reference_contexts: object, threshold: float = 1.0) -> dict[str, object]:
    retrieved, wanted = as_texts(contexts), [*dict.fromkeys(as_texts(reference_contexts))]
    if not wanted:
        return {"label": "no_reference", "score": None, "explanation": "There are no reference contexts."}
    missing = [text for text in wanted if not any(alike(text, one, threshold) for one in retrieved)]
    told = f"{len(wanted) - len(missing)} of {len(wanted)} reference context(s) were retrieved."
    if missing:
        more = f" and {len(missing) - SHOWN_TEXTS} more" if len(missing) > SHOWN_TEXTS else ""
        told += f" Missing: {', '.join(text[:CHARACTERS] for text in missing[:SHOWN_TEXTS])}{more}."
    return {"score": (len(wanted) - len(missing)) / len(wanted), "explanation": told}
