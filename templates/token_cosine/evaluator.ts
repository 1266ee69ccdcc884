// /// script
// [tool.evalcell.output]
// kind = "continuous"
// lower_bound = 0
// upper_bound = 1
// direction = "maximize"
// ///
/**
 * How many words two texts share, as the cosine of their word counts: 1 for the same words as often, 0 for none.
 *
 * Order, case and punctuation do not count, and neither does meaning. A word is one or more letters and digits (Unicode's
 * categories L and N) in a row, so an underscore or a combining vowel sign ends it. Words are counted, not hashed. Values
 * that are not text are compared as `String` writes them, which is `[object Object]` for every object. Where one side is
 * null, "", 0 or false, the label is `missing` and the score is 0; [] and {} are not missing.
 *
 * The score is the sum of a·b over the words, divided by the root of the sum of a² and that of b², where a and b are how
 * often each side has the word. The Python version splits and hashes in another way, and scores many texts differently.
 *
 * Source: Phoenix, code evaluator recipe token cosine, its TypeScript version.
 */
function evaluate({ output, reference }: EvaluatorParams) {
  if (!output || !reference) {
    return { label: "missing", score: 0, explanation: "Missing output or reference." };
  }
  const score = cosine(wordCounts(String(output)), wordCounts(String(reference)));
  return { score, explanation: `Token-overlap cosine similarity ${score.toFixed(4)}.` };
}

function wordCounts(text: string): Map<string, number> {
  const counts = new Map<string, number>();
  for (const [word] of text.toLowerCase().matchAll(/[\p{L}\p{N}]+/gu)) counts.set(word, (counts.get(word) ?? 0) + 1);
  return counts;
}

function cosine(a: Map<string, number>, b: Map<string, number>): number {
  if (a.size === 0 || b.size === 0) return 0;
  let shared = 0;
  for (const [word, count] of a) shared += count * (b.get(word) ?? 0);
  return shared / (length(a) * length(b));
}

function length(counts: Map<string, number>): number {
  let squares = 0;
  for (const count of counts.values()) squares += count * count;
  return Math.sqrt(squares);
}
