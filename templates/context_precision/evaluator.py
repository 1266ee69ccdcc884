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
#
# [tool.evalcell.parameters.ranked]
# type = "boolean"
# default = true
# description = "Whether relevant contexts count the more the earlier they come."
# ///
"""
How many of the retrieved contexts are relevant, and whether these come first, from 0 to 1.

A retrieved context is relevant if it is one of the reference contexts: the same text or id but for white space, or at
least `threshold` similar, 1 - Levenshtein(a, b) / length of the longer. With `ranked` the score is the average
precision: the mean of precision@k over the places k of the relevant ones. Without, it is the share of relevant ones.
Nothing retrieved, or nothing of it relevant, scores 0. Without any reference context there is no score.

A context is a text, an id, or an object, of which its `id` counts, else its `text`, `page_content` or `content`.

Source: Ragas, Context Precision without a model: its formula, over string similarity and over ids.
"""

from templates.parts.contexts import alike, as_texts


def evaluate(
    contexts: object, reference_contexts: object, threshold: float = 1.0, ranked: bool = True
) -> dict[str, object]:
    retrieved, wanted = as_texts(contexts), as_texts(reference_contexts)
    if not wanted:
        return {"label": "no_reference", "score": None, "explanation": "There are no reference contexts."}
    relevant = [any(alike(one, text, threshold) for text in wanted) for one in retrieved]
    told = f"{sum(relevant)} of {len(retrieved)} retrieved context(s) are relevant."
    if not any(relevant):
        return {"score": 0.0, "explanation": told}
    if not ranked:
        return {"score": sum(relevant) / len(retrieved), "explanation": told}
    total = 0.0
    for place, one in enumerate(relevant, 1):
        total += sum(relevant[:place]) / place if one else 0.0
    return {"score": min(1.0, total / sum(relevant)), "explanation": told}
