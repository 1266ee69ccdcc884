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
// expected = {type = "any", description = "The JSON it should be."}
// actual = {type = "any", description = "The JSON it is."}
// parse_strings = {type = "boolean", default = true, description = "Whether text is parsed as JSON first."}
//
// [tool.evalcell.parameters.extract]
// type = "string"
// default = "fence"
// choices = ["whole", "fence", "first", "last"]
// description = "What of a text is read as JSON: all of it, its only Markdown fence, its first or last object or array."
// ///
/**
 * How many values of a JSON document differ from the expected one, where types count; 0 means that nothing does.
 *
 * Objects are compared key by key and arrays element by element, at any depth. Each value that differs is one point,
 * and so is each key or element that only one side has, however much hangs below it: a missing key differs from null.
 * Booleans are no numbers, so true and 1 differ; 1 and 1.0 are the same number.
 *
 * Text is parsed as JSON first, or what `extract` takes out of it, unless `parse_strings` is false. Where it is no
 * JSON, the label is `invalid` and there is no score. As JavaScript's parser does, it refuses NaN and Infinity and
 * rounds whole numbers above 2 ** 53.
 *
 * Source: Phoenix, built-in evaluator json_distance, by its documentation.
 */
import { extractionNote, findJson } from "../parts/json_text.ts";

type Arguments = { expected: unknown; actual: unknown; parse_strings?: boolean; extract?: string };

export function evaluate({ expected, actual, parse_strings = true, extract = "fence" }: Arguments) {
  const sides: Record<string, unknown> = { expected, actual };
  for (const [name, value] of Object.entries(sides)) {
    if (!parse_strings || typeof value !== "string") continue;
    try {
      sides[name] = JSON.parse(findJson(value, extract) as string);
    } catch {
      return { label: "invalid", score: null, explanation: `Failed to parse JSON: \`${name}\` is not valid JSON` };
    }
  }
  const note = parse_strings ? extractionNote(actual, findJson(actual, extract)) : "";
  const count = differences(sides.expected, sides.actual);
  return { score: count, explanation: `JSON structures have ${count} difference(s)${note}` };
}

function differences(expected: unknown, actual: unknown): number {
  let count = 0;
  const pairs: [unknown, unknown][] = [[expected, actual]];
  // A list of what is left rather than recursion, which ends in an error some thousand levels down.
  while (pairs.length > 0) {
    const [a, b] = pairs.pop() as [unknown, unknown];
    if (Array.isArray(a) && Array.isArray(b)) {
      const paired = Math.min(a.length, b.length);
      count += Math.max(a.length, b.length) - paired;
      for (let at = 0; at < paired; at++) pairs.push([a[at], b[at]]);
    } else if (isObject(a) && isObject(b)) {
      const both = Object.keys(a).filter((key) => Object.hasOwn(b, key));
      count += Object.keys(a).length + Object.keys(b).length - 2 * both.length;
      for (const key of both) pairs.push([a[key], b[key]]);
    } else if (a !== b) {
      count++;
    }
  }
  return count;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
