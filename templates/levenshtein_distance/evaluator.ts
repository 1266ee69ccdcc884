// /// script
// [tool.evalcell.output]
// kind = "continuous"
// lower_bound = 0
// direction = "minimize"
//
// [tool.evalcell.mapping]
// expected = "reference"
// actual = "output"
//
// [tool.evalcell.parameters]
// expected = {type = "any", description = "The text it should be."}
// actual = {type = "any", description = "The text it is."}
// case_sensitive = {type = "boolean", default = true, description = "Whether upper and lower case differ."}
// ///
/**
 * How many single characters must be inserted, deleted or replaced to turn one text into the other; 0 for equal texts.
 *
 * The Levenshtein distance of `expected` and `actual`. A character is a Unicode code point, so an accent that is
 * stored apart from its letter is one of its own. Without case, both sides are lowered as `toLowerCase` does. A value
 * that is no text is compared as Python's `str` writes it: null is `None`, an object is a Python dict. Only what
 * JavaScript does not tell apart is written in one way: 1.0 as 1, and keys such as "7" before others. `expected` may be a
 * list of texts, of which the nearest counts; where both sides are lists, the two lists are compared.
 *
 * Source: Phoenix, built-in evaluator levenshtein_distance; Levenshtein 1966.
 */
import { editDistance } from "../parts/levenshtein.ts";
import { pythonText } from "../parts/python_text.ts";
import { references } from "../parts/references.ts";

type Arguments = { expected: unknown; actual: unknown; case_sensitive?: boolean };

function evaluate({ expected, actual, case_sensitive = true }: Arguments) {
  const written = (value: unknown) => case_sensitive ? pythonText(value) : pythonText(value).toLowerCase();
  const found = written(actual);
  const distance = Math.min(...references(expected, actual).map((one) => editDistance(written(one), found)));
  return { score: distance, explanation: `edit distance between expected and actual is ${distance}` };
}
