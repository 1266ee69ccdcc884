// /// script
// [tool.evalcell.output]
// kind = "continuous"
// lower_bound = 0
// upper_bound = 1
// direction = "maximize"
//
// [tool.evalcell.parameters.weights]
// type = "object"
// default = {exact = 1, contains = 1, length = 1, edit = 1, tokens = 1}
// keys = ["exact", "contains", "length", "edit", "tokens"]
// values = "number"
// minimum = 0
// some_above = 0
// description = "How much each axis counts, from 0; one that is left out does not."
// ///
/**
 * How close a text comes to the reference, blended from several measures, each of 0 to 1.
 *
 * The axes: `exact`, whether both are the same; `contains`, whether the reference stands in the output, in any case
 * (only an empty output contains an empty reference); `length`, the shorter length by the longer; `edit`,
 * 1 - distance / length of the longer (Levenshtein 1966); `tokens`, twice the shared words by the words of both (the
 * F1 of SQuAD, Rajpurkar et al. 2016). Without a difference they are 1, also between two empty texts.
 *
 * The score is the sum of weight x measure by the sum of the weights, so weights need not sum to 1. The explanation
 * shows each measure with its share. Weights are numbers from 0, and not all 0; others, or an unknown axis, are refused
 * before anything runs. Null is an empty output; without a reference there is no score. `reference` may be a list of
 * texts, of which the best counts; where the output is a list too, the two lists are compared. Other values that are
 * not text are taken as Python's `str` writes them.
 *
 * Source: none for the blend; those of the measures are named above.
 */
import { similarity } from "../parts/levenshtein.ts";
import { overlap } from "../parts/overlap.ts";
import { pythonText } from "../parts/python_text.ts";
import { references } from "../parts/references.ts";

const AXES = new Map<string, (found: string, wanted: string) => number>([
  ["exact", (found, wanted) => Number(found === wanted)],
  ["contains", contained],
  ["length", lengths],
  ["edit", similarity],
  ["tokens", overlap],
]);

export function evaluate(
  { output, reference, weights = Object.fromEntries([...AXES.keys()].map((axis) => [axis, 1])) }: {
    output: unknown;
    reference: unknown;
    weights?: Record<string, number>;
  },
) {
  const shares = shared(weights);
  if (reference === null) return { score: null, explanation: "There is no reference to compare with." };
  const found = output === null ? "" : pythonText(output);
  const blends = references(reference, output).map((wanted) => blended(found, pythonText(wanted), shares));
  return blends.reduce((best, blend) => blend.score > best.score ? blend : best);
}

function blended(found: string, wanted: string, shares: [string, number][]) {
  const measured = shares.map(([axis, share]) => ({ axis, share, measure: AXES.get(axis)!(found, wanted) }));
  const score = Math.min(1, measured.reduce((sum, { share, measure }) => sum + measure * share, 0));
  const told = measured.map(({ axis, share, measure }) => `${axis} ${rounded(measure)} x ${rounded(share)}`);
  return { score, explanation: `${told.join(" + ")} = ${rounded(score)}` };
}

function contained(found: string, wanted: string): number {
  return Number(wanted === "" ? found === "" : found.toLowerCase().includes(wanted.toLowerCase()));
}

function lengths(found: string, wanted: string): number {
  const [a, b] = [Array.from(found).length, Array.from(wanted).length];
  return a === b ? 1 : Math.min(a, b) / Math.max(a, b);
}

/** What part of the whole each axis has, without those of no weight. Throws RangeError for unusable weights. */
function shared(weights: Record<string, number>): [string, number][] {
  for (const [axis, weight] of Object.entries(weights)) {
    if (!AXES.has(axis)) {
      throw new RangeError(`\`weights\` has the unknown axis '${axis}'; known are ${[...AXES.keys()].join(", ")}`);
    }
    if (typeof weight !== "number" || !(weight >= 0 && weight < Infinity)) {
      throw new RangeError(`the weight of '${axis}' must be a number from 0, not ${JSON.stringify(weight)}`);
    }
  }
  const largest = Math.max(0, ...Object.values(weights));
  if (largest === 0) {
    throw new RangeError('`weights` gives no axis any weight; say for example {"edit": 2, "tokens": 1}');
  }
  // By the largest first: the sum of weights near the end of the range would be infinite.
  const axes = [...AXES.keys()].filter((axis) => weights[axis]);
  const parts = axes.map((axis) => [axis, weights[axis] / largest] as const);
  const whole = parts.reduce((sum, [, part]) => sum + part, 0);
  return parts.map(([axis, part]) => [axis, part / whole]);
}

/** Two digits, halves up, also what is a half but for rounding: the same in every language. */
function rounded(value: number): string {
  return (Math.floor(value * 100 + 0.5 + 1e-9) / 100).toFixed(2);
}
