from autoevals import ExactMatch, JSONDiff, Levenshtein, NumericDiff
