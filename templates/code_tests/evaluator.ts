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
 * Whether a program passes its unit tests.
 *
 * The output is a program in TypeScript or JavaScript, or a text with one in a Markdown fence, of which the first one
 * counts. The reference is its tests: `console.assert`, Node's `assert` or Deno's, as in HumanEval-X and MultiPL-E; code that
 * throws; a function `check(candidate)`; a file with `test`, `describe` and `expect` as Jest, Vitest and Deno take it; a
 * list of such lines; or pairs of input and output, as in Python. A matcher that is not there is refused by name.
 *
 * Labels and scores are those of the template in Python, and as there the program runs in a call of its own and never
 * sees the tests, but all the arguments that they give it. They get data back, of their own realm. Objects with a class or
 * methods stay with the program. One that the tests make with `new` answers for itself. One that the program returned is
 * `spoilt` where tests compute with it, or call a method that decides, such as `includes` or `has`.
 *
 * Source: the unit tests of HumanEval-X (Zheng et al. 2023) and MultiPL-E (Cassano et al. 2023), pass@1.
 */
import { evaluated, fenced, lineOf, withoutExports, withoutImports } from "../parts/javascript_text.ts";
import { decodedValue, encodedValue } from "../parts/plain_values.ts";
import { ProgramInput } from "../parts/program_io.ts";
import { Candidate } from "../parts/candidate.ts";
import { behind } from "../parts/program_values.ts";
import { Questions, Stop } from "../parts/stand_ins.ts";
import { Equality } from "../parts/equality.ts";
import { Verdict } from "../parts/verdict.ts";
import { Assertions } from "../parts/assertions.ts";
import { Matchers } from "../parts/matchers.ts";
import { Timers } from "../parts/test_timers.ts";
import { TestLibrary } from "../parts/test_library.ts";
import { isLeft } from "../parts/test_realm.ts";
import { TestModules } from "../parts/test_modules.ts";
import { TestFile } from "../parts/test_file.ts";

const ENDS: Record<string, string> = {
  timeout: "The program did not end in its time.",
  memory: "The program needed more memory than it may have.",
  output: "The program returned or printed too much.",
  crash: "The program ended its process.",
};
const ROUNDS = 64; // calls apart that a row may have
const SPOILT = "The program spoilt its answers: ";
const UNJUDGED = "The program cannot be judged: ";

type Arguments = {
  output: any;
  reference: any;
  entry_point?: string;
  prompt?: string;
  module?: string;
  score?: string;
  asked?: any;
  reply?: any;
};
type Scored = { label: string; score: number; explanation: string };

async function evaluate(
  { output, reference, entry_point = "", prompt = "", module = "solution", score = "all", asked = null, reply = null }:
    Arguments,
): Promise<any> {
  if (asked !== null) return await new Candidate(output.text, output.typed).answers(asked);
  if (typeof output !== "string") return { label: "unloaded", score: 0, explanation: "The output is no text." };
  if (isLeft()) return { afresh: true };
  const found = await new Judge(reference, entry_point, prompt, module, score).judged(output, reply);
  return "apart" in found ? found : { ...found, explanation: found.explanation.toWellFormed() };
}

/** Tests, and what came of the program. */
class Judge {
  private readonly pairs: [unknown, unknown][] | null;
  private readonly tests: string;
  private entry: string;
  private prompt: string;
  private readonly module: string;
  private readonly score: string;

  constructor(reference: any, entry: string, prompt: string, module: string, score: string) {
    this.entry = entry;
    this.prompt = prompt;
    this.module = module;
    this.score = score;
    if (typeof reference === "string" && /^\s*[[{]/.test(reference)) reference = parsed(reference);
    if (isObject(reference) && ("test" in reference || "tests" in reference)) {
      this.entry ||= String(reference.entry_point ?? "");
      this.prompt ||= String(reference.prompt ?? "");
      reference = reference.test || reference.tests;
    }
    this.pairs = pairsOf(reference);
    if (Array.isArray(reference) && reference.every((one) => typeof one === "string")) reference = reference.join("\n");
    if (this.pairs === null && typeof reference !== "string") {
      throw new TypeError(
        "the reference must be tests as text, a list of assertions, or pairs of `input` and `output`",
      );
    }
    this.tests = String(reference);
  }

  /** The result, or what must be asked of the program first. */
  async judged(output: string, reply: any): Promise<Scored | { apart: any }> {
    if (reply !== null && reply.status !== "ok") {
      const label = reply.status in ENDS ? reply.status : "spoilt";
      return { label, score: 0, explanation: ENDS[label] ?? SPOILT + String(reply.message).slice(0, 500) };
    }
    const value = reply?.value ?? {};
    if (isObject(value) && "unloaded" in value) {
      return { label: "unloaded", score: 0, explanation: unloaded(value.unloaded) };
    }
    const [before, reached] = reply === null ? [-1, 0] : reply.asked.reference;
    const questions = new Questions(reply?.asked.asked ?? [], value);
    const { typed } = fenced(output);
    let verdict: Verdict;
    if (this.pairs) verdict = this.ofPairs(this.pairs, questions);
    else {verdict = await new TestFile(this.tests, this.module, this.entry, questions, this.score === "share")
        .run();}
    if (questions.refused) throw new Error(questions.refused);
    if (before + 1 === ROUNDS && questions.missing && questions.waitsForChosen) {
      questions.spoilt ||= "an object of its own that it returned was asked in more rounds than a row may have";
    }
    if (questions.spoilt) {
      const begins = questions.unjudged ? UNJUDGED : SPOILT;
      return { label: "spoilt", score: 0, explanation: `${begins}${questions.spoilt}.` };
    }
    const most = Math.max(reached, verdict.reached);
    if (questions.missing && (this.score === "share" || !verdict.failed)) {
      // The program needs no reference, which counts the rounds, and the assertions, instead.
      const text = { text: whole(fenced(output).text, this.prompt, this.entry), typed };
      return { apart: { output: text, reference: [before + 1, most], module: this.module, asked: questions.asked } };
    }
    if (!questions.asked.length) {
      const why = verdict.failed ? `fails before it asks anything: ${verdict.first}` : "tests nothing: it asks nothing";
      throw new Error(`the reference ${why} of the program`);
    }
    return this.result(verdict, verdict.cut ? most : 0);
  }

  /** What the row comes to; `least` cases are known to be there. */
  private result(verdict: Verdict, least: number): Scored {
    const cases = Math.max(verdict.held + verdict.failed, least);
    if (!cases) throw new Error("the reference tests nothing: no case of it ran");
    if (!verdict.failed) return { label: "passed", score: 1, explanation: "All cases passed." };
    if (this.score === "all") {
      return { label: "failed", score: 0, explanation: `The first case that failed: ${verdict.first}` };
    }
    const share = `${verdict.held} of ${cases} cases passed; the first that failed: ${verdict.first}`;
    return { label: "failed", score: verdict.held / cases, explanation: share };
  }

  /** Each pair is a case. */
  private ofPairs(pairs: [unknown, unknown][], questions: Questions): Verdict {
    let at = 0;
    const verdict = new Verdict(questions, this.score === "share", () => `pair ${at}`);
    const equality = new Equality(questions);
    try {
      for (const [given, expected] of pairs) {
        at++;
        questions.last = "";
        try {
          const value = this.entry ? returned(questions, this.entry, given) : printed(questions, String(given));
          const wanted = this.entry ? expected : lines(String(expected));
          const words = (one: unknown) => (JSON.stringify(one) ?? String(one)).slice(0, 200);
          verdict.check(
            () => equality.equal(value, wanted, "pair"),
            () => `expected ${words(wanted)}, not ${words(value)}`,
          );
        } catch (error) {
          verdict.fail(error);
        }
      }
    } catch (error) {
      if (!(error instanceof Stop)) throw error;
    }
    return verdict;
  }
}

function isObject(value: any): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** The pairs of a list of objects, or of an object with `inputs` and `outputs`; null if it has none. */
function pairsOf(reference: any): [unknown, unknown][] | null {
  if (isObject(reference) && Array.isArray(reference.inputs)) {
    const { inputs, outputs } = reference;
    if (!Array.isArray(outputs) || outputs.length !== inputs.length) {
      throw new TypeError("the reference has not as many `outputs` as `inputs`");
    }
    return inputs.map((one: unknown, at: number) => [one, outputs[at]]);
  }
  if (Array.isArray(reference) && reference.length && reference.every((one) => isObject(one) && "input" in one)) {
    return reference.map((one) => [one.input, "output" in one ? one.output : one.expected]);
  }
  return null;
}

/** What the function returns, also by a promise. */
function returned(questions: Questions, entry: string, given: unknown): unknown {
  return questions.ask(
    { of: null, name: entry, args: [], settled: true },
    Array.isArray(given) ? given : [given],
    entry,
  );
}

/** What the program prints when it reads the text, by lines without the spaces at their ends. */
function printed(questions: Questions, text: string): string {
  const before = questions.printed.length;
  questions.ask({ run: text, settled: true }, [], "the program");
  return lines(questions.printed.slice(before));
}

function lines(text: string): string {
  return text.trimEnd().split("\n").map((line) => line.trimEnd()).join("\n");
}

/** The program with the prompt before it, unless it defines the function itself. */
function whole(text: string, prompt: string, entry: string): string {
  const name = entry.replace(/[^\w$]/g, "").replace(/\$/g, "\\$&");
  const defines = new RegExp(
    `^[ \\t]*(export\\s+)?(default\\s+)?(async\\s+)?(function\\*?|class|const|let|var)\\s+${name}\\b`,
    "m",
  );
  return !prompt || (name && defines.test(text)) ? text : prompt + text;
}

function unloaded(raised: any): string {
  if (!isObject(raised) || [raised.name, raised.text].some((one) => typeof one === "object")) {
    return "The program does not load.";
  }
  const line = Number.isInteger(raised?.line) && raised.line > 0 ? ` (line ${raised.line})` : "";
  const words = raised?.thrown === undefined
    ? `${String(raised?.name).slice(0, 100)}: ${String(raised?.text).slice(0, 400)}`
    : "it throws what is no error";
  return `The program does not load: ${words}${line}`;
}
