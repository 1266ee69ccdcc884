# /// script
# requires-python = ">=3.11"
# dependencies = ["scikit-learn==1.9.1"]
#
# [tool.evalcell.output]
# kind = "continuous"
# lower_bound = 0
# upper_bound = 1
# direction = "maximize"
#
# [tool.evalcell.parameters]
# alternate_sign = {type = "boolean", default = false, description = "Whether to hash with signs."}
# n_features = {type = "integer", minimum = 1, maximum = 2147483647, default = 262144, description = "Places for runs."}
# ///
"""
How many short runs of characters two texts share: the cosine of the counts of 2, 3 and 4 characters in a row.

For code, identifiers and short answers, where a typo or another ending should cost a little and not the whole word.
The runs stay inside what white space separates, with a space at either end, so single characters and punctuation
count too. Case does not. Values that are not text are compared as `str` writes them. Where one side is empty, the
label is `missing` and the score is 0.

`n_features` is the number of places that runs are hashed into. `alternate_sign` is scikit-learn's signed hashing,
which can put a score below 0.

The score is the sum of a·b over the places, divided by the root of the sum of a² and that of b², where a and b are how
many runs of each side fall there.

Source: Phoenix, code evaluator recipe token cosine, its variant for character n-grams.
"""

from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.metrics.pairwise import cosine_similarity


def evaluate(
    output: object, reference: object, alternate_sign: bool = False, n_features: int = 262_144
) -> dict[str, object]:
    if not output or not reference:
        return {"label": "missing", "score": 0.0, "explanation": "Missing output or reference."}
    vectorizer = HashingVectorizer(
        n_features=n_features, analyzer="char_wb", ngram_range=(2, 4), norm="l2", alternate_sign=alternate_sign
    )
    vectors = vectorizer.transform([str(output), str(reference)])
    similarity = float(cosine_similarity(vectors[0], vectors[1])[0, 0])
    return {"score": similarity, "explanation": f"Character n-gram cosine similarity {similarity:.4f}."}
