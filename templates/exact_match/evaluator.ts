// /// script
// [tool.evalcell.output]
// kind = "categorical"
// labels = {"true" = 1.0, "false" = 0.0}
// direction = "maximize"
//
// [tool.evalcell.mapping]
// expected = "reference"
// actual = "output"
//
// [tool.evalcell.parameters]
// expected = {type = "any", description = "What it should be."}
// actual = {type = "any", description = "What it is."}
// case_sensitive = {type = "boolean", default = true, description = "Whether upper and lower case differ."}
// ///
/**
 * Whether two texts are the same, character by character.
 *
 * White space and line ends count. Without `case_sensitive`, both sides are compared in lower case. Values that are not
 * text are compared as Python's `str` writes them, so the order of an object's keys counts, but for keys such as "7",
 * which JavaScript always has first. `expected` may be a list of texts, one of which is enough; where both sides are
 * lists, the two lists are compared.
 *
 * Source: the built-in evaluator `exact_match` of Arize Phoenix.
 */
import { pythonText } from "../parts/python_text.ts";
import { references } from "../parts/references.ts";

export function evaluate(
  { expected, actual, case_sensitive = true }: { expected: unknown; actual: unknown; case_sensitive?: boolean },
) {
  const written = (value: unknown) => case_sensitive ? pythonText(value) : pythonText(value).toLowerCase();
  const found = written(actual);
  return references(expected, actual).some((one) => written(one) === found)
    ? { label: "true", score: 1, explanation: "expected matches actual" }
    : { label: "false", score: 0, explanation: "expected does not match actual" };
}
