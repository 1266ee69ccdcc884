// /// script
// [tool.evalcell.output]
// kind = "categorical"
// labels = {output = 1.0, tie = 0.5, other = 0.0}
// direction = "maximize"
//
// [tool.evalcell.mapping]
// other = "metadata.other"
//
// [tool.evalcell.parameters]
// other = {type = "any", description = "What the output is held against."}
// measure = {type = "string", choices = ["edit", "tokens"], default = "edit", description = "What closeness is."}
// margin = {type = "number", minimum = 0, maximum = 1, default = 0, description = "Up to this much apart is a tie."}
// ///
/**
 * Which of two texts is closer to the reference: `output` (1), `other` (0), or neither (`tie`, 0.5).
 *
 * Closeness is 0 to 1: with `edit` 1 - distance / length of the longer (Levenshtein 1966), with `tokens` twice the
 * shared words by the words of both (the F1 of SQuAD, Rajpurkar et al. 2016). Up to `margin` apart is a tie. The order
 * does not matter: with `output` and `other` swapped, the result is the mirrored one.
 *
 * Null is an empty text; without a reference there is no score. `reference` may be a list of texts: each text is
 * compared with the one that it is closest to. Other values that are not text are taken as Python's `str` writes them.
 *
 * Source: none for the choice; those of the measures are named above.
 */
import { similarity } from "../parts/levenshtein.ts";
import { overlap } from "../parts/overlap.ts";
import { pythonText } from "../parts/python_text.ts";
import { references } from "../parts/references.ts";

const MEASURES = new Map([["edit", similarity], ["tokens", overlap]]);

export function evaluate(
  { output, other, reference, measure = "edit", margin = 0 }: {
    output: unknown;
    other: unknown;
    reference: unknown;
    measure?: string;
    margin?: number;
  },
) {
  const closeness = MEASURES.get(measure);
  if (closeness === undefined) {
    throw new RangeError(`\`measure\` must be one of ${[...MEASURES.keys()].join(", ")}, not '${measure}'`);
  }
  if (reference === null) return { score: null, explanation: "There is no reference to compare with." };
  const [mine, theirs] = [output, other].map((value) => {
    const text = value === null ? "" : pythonText(value);
    return Math.max(...references(reference, value).map((one) => closeness(text, pythonText(one))));
  });
  const explanation = `output ${rounded(mine)}, other ${rounded(theirs)} (${measure})`;
  // A difference that is the margin but for rounding is a tie too.
  if (Math.abs(mine - theirs) <= margin + 1e-12) return { label: "tie", score: 0.5, explanation };
  return mine > theirs ? { label: "output", score: 1, explanation } : { label: "other", score: 0, explanation };
}

/** Four digits, halves up, which is the same in every language. */
function rounded(value: number): string {
  return (Math.floor(value * 10_000 + 0.5) / 10_000).toFixed(4);
}
