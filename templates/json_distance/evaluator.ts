// /// script
// [tool.evalcell.output]
// kind = "continuous"
// lower_bound = 0
// direction = "minimize"
//
// [tool.evalcell.parameters.extract]
// type = "string"
// default = "whole"
// choices = ["whole", "fence", "first", "last"]
// description = "What of a text is read as JSON: all of it, its only Markdown fence, its first or last object or array."
// ///
/**
 * How many fields of a JSON document differ from the reference; 0 means that nothing does.
 *
 * Objects are compared key by key and arrays element by element, at any depth. Each value that differs is one point,
 * and so is each key or element that only one side has, however much hangs below it. Text is parsed as JSON first,
 * or what `extract` takes out of it; where it is none, the label is `invalid` and there is no score.
 *
 * Equal is what JavaScript calls `===`: 1 and 1.0 are, true and 1 are not, and whole numbers above 2 ** 53 are rounded
 * before. A key that is missing differs from one that is null. The Python version answers differently in all three.
 *
 * Source: Phoenix, code evaluator recipe JSON Distance, its TypeScript version.
 */
import { extractionNote, findJson } from "../parts/json_text.ts";

type Arguments = { output: unknown; reference: unknown; extract?: string };

function evaluate({ output, reference, extract = "whole" }: Arguments) {
  const part = findJson(output, extract);
  const note = extractionNote(output, part);
  let points: number;
  try {
    points = distance(parsed(part), parsed(findJson(reference, extract)));
  } catch (error) {
    return { label: "invalid", score: null, explanation: `Failed to parse JSON: ${(error as Error).message}` };
  }
  if (points === 0) return { label: "match", score: 0, explanation: `Output matches the reference exactly.${note}` };
  return { label: "mismatch", score: points, explanation: `${points} field(s) differ from the reference.${note}` };
}

function parsed(value: unknown): unknown {
  return typeof value === "string" ? JSON.parse(value) : value;
}

function distance(output: unknown, reference: unknown): number {
  let points = 0;
  const pairs: [unknown, unknown][] = [[output, reference]];
  // A list of what is left rather than recursion, which ends in an error some thousand levels down.
  while (pairs.length > 0) {
    const [found, wanted] = pairs.pop() as [unknown, unknown];
    if (Array.isArray(found) && Array.isArray(wanted)) {
      const paired = Math.min(found.length, wanted.length);
      points += Math.max(found.length, wanted.length) - paired;
      for (let at = 0; at < paired; at++) pairs.push([found[at], wanted[at]]);
    } else if (isObject(found) && isObject(wanted)) {
      const both = Object.keys(found).filter((key) => Object.hasOwn(wanted, key));
      points += Object.keys(found).length + Object.keys(wanted).length - 2 * both.length;
      for (const key of both) pairs.push([found[key], wanted[key]]);
    } else if (found !== wanted) {
      points++;
    }
  }
  return points;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
