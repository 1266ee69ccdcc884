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
declare function evalcellRules(): any; // of Langfuse's dialect, whose text stands below
const { scored } = evalcellRules();

const text = `${SOURCE}\nexport const evalcellEntry = typeof evaluate === "function" ? evaluate : undefined;\n`;
const PLACE = /data:application\/typescript[^\s)]*?(?=:\d+:\d+)/g; // Deno shortens it in stacks
const module = await import(`data:application/typescript;charset=utf-8,${encodeURIComponent(text)}`).catch(placed);

/** Raises the error, whose places are in the evaluator rather than here. */
function placed(error: unknown): never {
  if (error instanceof Error) {
    error.message = error.message.replaceAll(PLACE, "evaluator.ts");
    error.stack = error.stack?.replaceAll(PLACE, import.meta.url);
  }
  throw error;
}

function told(value: any): object {
  const scores = value?.scores;
  if (!Array.isArray(scores) || scores.length === 0) {
    return { invalid: "return { scores: [{ name, value }] } with one score at least" };
  }
  const found = [];
  for (const score of scores) {
    if (typeof score?.name !== "string" || !score.name) return { invalid: "a score is an object, and has a name" };
    const read = scored(score);
    if (read.invalid !== undefined) return { invalid: read.invalid };
    const one = Object.fromEntries(Object.entries(score).filter(([, part]) => part !== null && part !== undefined));
    if (one.dataType === "BOOLEAN") one.value = read.score;
    if (typeof one.value === "number" && !Number.isFinite(one.value)) {
      return { invalid: `the score ${score.name} has a value that is no finite number` };
    }
    found.push(one);
  }
  return { scores: found };
}

async function scores({ observation, experiment }: any): Promise<object> {
  if (module.evalcellEntry === undefined) return { unloaded: "the script defines no function named evaluate" };
  const given = { observation: { ...observation, toolCalls: observation?.toolCalls ?? [] }, experiment: experiment ?? undefined };
  try {
    return told(await module.evalcellEntry(given));
  } catch (error) {
    return placed(error);
  }
}

/** A letter that JSON need not escape, so that no part ends amid a pair of two. */
const escaped = (letter: string) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`;

export async function evaluate({ output }: { output: any }) {
  const whole = JSON.stringify(await scores(output)).replaceAll(/[^\0-\x7f]/g, escaped);
  return Object.fromEntries(
    Array.from({ length: 8 }, (_, n) => {
      return [`s${n}`, { label: "part", explanation: "|" + whole.slice(n * PART, (n + 1) * PART) }];
    }),
  );
}
