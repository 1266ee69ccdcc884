// /// script
// [tool.evalcell.outputs]
// s0 = {kind = "freeform"}
// s1 = {kind = "freeform"}
// s2 = {kind = "freeform"}
// s3 = {kind = "freeform"}
// s4 = {kind = "freeform"}
// s5 = {kind = "freeform"}
// s6 = {kind = "freeform"}
// s7 = {kind = "freeform"}
// ///
/** Calls an evaluator of Langfuse's page, and tells its scores as JSON, in parts that results can hold. */

const SOURCE = "";
const PART = 60_000;
const TYPES = ["NUMERIC", "CATEGORICAL", "BOOLEAN", "TEXT"];
const TRUTHS: Record<string, number> = { true: 1, "1": 1, "1.0": 1, false: 0, "0": 0, "0.0": 0 };

const text = `${SOURCE}\nexport { evaluate as evalcellEntry };\n`;
const module = await import(`data:application/typescript;charset=utf-8,${encodeURIComponent(text)}`);

function wrong(one: Record<string, unknown>): string {
  const { name, value, dataType: kind } = one;
  if (typeof name !== "string" || !name) return "a score needs a name";
  if (kind !== undefined && !TYPES.includes(kind as string)) return `the score ${name} has an unknown data type`;
  if (kind === "BOOLEAN" && String(value).toLowerCase() in TRUTHS) {
    one.value = TRUTHS[String(value).toLowerCase()];
    return "";
  }
  const number = typeof value === "number" && Number.isFinite(value), words = typeof value === "string";
  const fits = kind === undefined ? number || words : kind === "NUMERIC" ? number : kind !== "BOOLEAN" && words;
  return fits ? "" : `the score ${name} has a value that does not fit its data type`;
}

function told(value: any): object {
  const scores = value?.scores;
  if (!Array.isArray(scores) || scores.length === 0) {
    return { invalid: "return { scores: [{ name, value }] } with one score at least" };
  }
  const found = [];
  for (const score of scores) {
    if (score === null || typeof score !== "object") return { invalid: "a score is an object" };
    const one = Object.fromEntries(Object.entries(score).filter(([, part]) => part !== null && part !== undefined));
    const why = wrong(one);
    if (why) return { invalid: why };
    found.push(one);
  }
  return { scores: found };
}

export async function evaluate({ output }: { output: any }) {
  const observation = { ...output.observation, toolCalls: output.observation?.toolCalls ?? [] };
  const value = await module.evalcellEntry({ observation, experiment: output.experiment ?? undefined });
  const whole = JSON.stringify(told(value));
  return Object.fromEntries(
    Array.from({ length: 8 }, (_, n) => {
      return [`s${n}`, { label: "part", explanation: "|" + whole.slice(n * PART, (n + 1) * PART) }];
    }),
  );
}
