// /// script
// [tool.evalcell.output]
// kind = "categorical"
// labels = {"true" = 1.0, "false" = 0.0}
// direction = "maximize"
//
// [tool.evalcell.mapping]
// text = "output"
//
// [tool.evalcell.parameters]
// pattern = {type = ["string", "any"], description = "A regular expression, as Python's re reads them."}
// text = {type = "any", description = "Where to look."}
// full_match = {type = "boolean", default = false, description = "Whether it must match all of the text."}
// ///
/**
 * Whether a regular expression matches a text: anywhere in it, or with `full_match` all of it.
 *
 * The expression is one of Python's `re`, as in the built-in: `$` also matches before a last line feed, `\w` and `\d`
 * are those of all scripts. Flags stand in the expression: `(?i)`. One that is no regular expression, or that
 * JavaScript has no words for, gives no score, and the explanation says why. One that takes too long ends at the run's
 * timeout, for that row alone. Values that are not text are taken as Python's `str` writes them.
 *
 * Source: the built-in evaluator `regex` of Arize Phoenix.
 */
import { compiled } from "../parts/pattern.ts";
import { pythonText } from "../parts/python_text.ts";

export function evaluate(
  { pattern, text, full_match = false }: { pattern: unknown; text: unknown; full_match?: boolean },
) {
  let expression: RegExp;
  try {
    expression = compiled(pythonText(pattern), "", full_match);
  } catch (error) {
    return { label: null, score: null, explanation: `Invalid regex pattern: ${(error as Error).message}` };
  }
  const how = full_match ? "full match" : "search";
  return expression.test(pythonText(text))
    ? { label: "true", score: 1, explanation: `pattern matched (${how})` }
    : { label: "false", score: 0, explanation: `pattern did not match (${how})` };
}
