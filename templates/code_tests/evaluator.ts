// /// script
// [tool.evalcell]
// apart = true
//
// [tool.evalcell.output]
// kind = "continuous"
// lower_bound = 0
// upper_bound = 1
// direction = "maximize"
//
// [tool.evalcell.parameters]
// entry_point = {type = "string", default = "", description = "The function that `check`, or a pair's input, is for."}
// prompt = {type = "string", default = "", description = "What is before an output that is only the rest of a program."}
// module = {type = "string", default = "solution", description = "The name by which the tests import the program."}
//
// [tool.evalcell.parameters.score]
// type = "string"
// choices = ["all", "share"]
// default = "all"
// description = "`all`: 1 if every case passed, else 0. `share`: the share of the cases that passed."
// ///
/**
 * Whether a program in TypeScript or JavaScript passes its unit tests.
 *
 * The output is a program, or a text with one in a Markdown fence, of which the first one counts. The reference is its
 * tests: calls of `assert` or `console.assert`, as MultiPL-E and HumanEval-X have them, a function `check(candidate)`, a
 * file for node:test, Jest or Vitest, a list of asserts, or pairs of input and output. A pair's input is the arguments of
 * the `entry_point`, as a list, and its output what it returns. An object as reference may hold `test`, `entry_point` and
 * `prompt`.
 *
 * The label is `passed` or `failed`; or how the program ended before it could be judged: `unloaded`, `timeout`, `memory`,
 * `output`, `crash`, also for an exit, or `spoilt`, where what it answered is no value. All of these score 0: what a
 * program does is what is judged. The explanation names the first case that failed. Tests that cannot be run fail the row.
 *
 * The program runs in a call of its own and never sees the tests, but all the arguments that they give it. They get plain
 * values back. Objects of the program's classes stay with it, and equal nothing but themselves.
 *
 * Source: the unit tests of HumanEval (Chen et al. 2021) and MBPP (Austin et al. 2021) in TypeScript, as MultiPL-E
 * (Cassano et al. 2022) writes them, pass@1.
 */
import { decodedValue, encodedValue } from "../parts/js_data.ts";
import { Program } from "../parts/js_program.ts";
import { Questions } from "../parts/js_questions.ts";
import { Suite, Verdict } from "../parts/js_suite.ts";

const ENDS: Record<string, string> = {
  timeout: "The program did not end in its time.",
  memory: "The program needed more memory than it may have.",
  output: "The program returned or printed too much.",
  crash: "The program ended its process.",
};
const SPOILT = "The program spoilt its answers: ";

export async function evaluate(
  { output, reference, entry_point = "", prompt = "", module = "solution", score = "all", asked = null, reply = null }: {
    output: unknown;
    reference: any;
    entry_point?: string;
    prompt?: string;
    module?: string;
    score?: string;
    asked?: any;
    reply?: any;
  },
) {
  if (asked !== null) return await new Program().answers(String(output), asked);
  if (typeof output !== "string") return { label: "unloaded", score: 0, explanation: "The output is no text." };
  if (typeof reference === "string" && /^\s*[[{]/.test(reference)) {
    try {
      reference = JSON.parse(reference);
    } catch {
      // text that only begins like JSON
    }
  }
  if (reference !== null && typeof reference === "object" && ("test" in reference || "tests" in reference)) {
    entry_point ||= String(reference.entry_point ?? "");
    prompt ||= String(reference.prompt ?? "");
    reference = reference.test ?? reference.tests;
  }
  const pairs = pairsOf(reference);
  if (Array.isArray(reference) && reference.every((one) => typeof one === "string")) reference = reference.join("\n");
  if (!pairs && typeof reference !== "string") {
    throw new TypeError("the reference must be tests as text, a list of asserts, or pairs of `input` and `output`");
  }
  if (pairs && !entry_point) throw new TypeError("pairs of input and output need an `entry_point`: a program that reads is not run");
  if (reply !== null && reply.status !== "ok") {
    const known = reply.status in ENDS;
    return { label: known ? reply.status : "spoilt", score: 0, explanation: known ? ENDS[reply.status] : SPOILT + String(reply.message).slice(0, 500) };
  }
  if (reply?.value?.unloaded !== undefined) {
    const { name, text } = reply.value.unloaded ?? {};
    return { label: "unloaded", score: 0, explanation: `The program does not load: ${String(name).slice(0, 100)}: ${String(text).slice(0, 400)}` };
  }
  const questions = new Questions(reply?.asked?.asked ?? [], reply?.value);
  const verdict = new Verdict(questions, score === "share");
  if (pairs) runPairs(pairs, entry_point, questions, verdict);
  else await new Suite(reference, module, entry_point, questions, verdict).run();
  if (questions.refused) throw new Error(questions.refused);
  if (questions.spoilt) return { label: "spoilt", score: 0, explanation: `${SPOILT}${questions.spoilt}.` };
  if (questions.missing && (score === "share" || !verdict.failed)) {
    return { apart: { output: whole(program(output), prompt, entry_point), reference: null, asked: questions.asked } };
  }
  if (!questions.asked.some((one) => !("names" in one))) throw new Error("the reference tests nothing: it asks nothing of the program");
  const cases = verdict.held + verdict.failed;
  if (!verdict.failed) return { label: "passed", score: 1, explanation: "All cases passed." };
  const first = `first case that failed: ${verdict.first}`;
  if (score === "all") return { label: "failed", score: 0, explanation: `The ${first}` };
  return { label: "failed", score: verdict.held / cases, explanation: `${verdict.held} of ${cases} cases passed; the ${first}` };
}

/** The pairs of a list of objects, or of an object with `inputs` and `outputs`. */
function pairsOf(reference: any): [unknown, unknown][] | null {
  if (Array.isArray(reference?.inputs)) {
    if (!Array.isArray(reference.outputs) || reference.outputs.length !== reference.inputs.length) {
      throw new TypeError("the reference has not as many `outputs` as `inputs`");
    }
    return reference.inputs.map((one: unknown, at: number) => [one, reference.outputs[at]]);
  }
  const found = Array.isArray(reference) && reference.length && reference.every((one) => one !== null && typeof one === "object" && "input" in one);
  return found ? reference.map((one: any) => [one.input, "output" in one ? one.output : one.expected]) : null;
}

function runPairs(pairs: [unknown, unknown][], entry: string, questions: Questions, verdict: Verdict) {
  try {
    pairs.forEach(([input, expected], at) => {
      try {
        const value = questions.ask({ of: null, name: entry }, Array.isArray(input) ? input : [input]);
        if (!questions.missing) nodeAssert.deepStrictEqual(value, expected);
        verdict.hold();
      } catch (error) {
        verdict.fail(`pair ${at + 1}`, error);
      }
    });
  } catch (error) {
    if (!(error instanceof Stop)) throw error;
  }
}

/** The first fenced block, or all of a text without one. */
function program(output: string): string {
  return output.match(/^(`{3,}|~{3,})[^\n`]*\n([\s\S]*?)^\1[ \t]*$/m)?.[2] ?? output;
}

/** The program with the prompt before it, unless it defines the function itself. */
function whole(text: string, prompt: string, entry: string): string {
  const defines = entry && new RegExp(`\\b(function|class|const|let|var)\\s*\\*?\\s*${entry.replace(/\$/g, "\\$")}\\b`).test(text);
  return defines || !prompt ? text : prompt + text;
}
