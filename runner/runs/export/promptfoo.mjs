// promptfoo: EVALUATOR, which evalcell runs in a sandbox. Written by `evalcell export`.
// It needs the command `evalcell`, or its path in the variable EVALCELL. In promptfooconfig.yaml:
//
//   defaultTest:
//     assert:
//       - type: javascript
//         value: file://FILE
//         config: {}  # values of the evaluator's parameters
//
// `output` is the output, `reference` the variable `reference` or `expected`, `input` the variable `input` or the prompt;
// all variables are columns. A row that failed or abstained has no score: it is an error of its test.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const EVALUATOR = SCRIPT;
const OPTIONS = [];
const LOWER_IS_BETTER = false;

export default async function (output, context) {
  const vars = context.vars ?? {};
  const row = { metadata: { ...context.test?.metadata, ...vars }, output, input: vars.input ?? context.prompt };
  const reference = vars.reference ?? vars.expected;
  if (reference !== undefined) row.reference = reference;
  const result = await one(context.config ?? {}).score(row);
  if (result.error) throw failure(`${result.error.kind}: ${result.error.message}`);
  if (result.outcome === "abstained") throw failure(`no score: ${result.explanation ?? result.label}`);
  const named = Object.entries(result.outputs).filter(([, found]) => found.score !== null);
  const namedScores = Object.fromEntries(named.map(([name, found]) => [name, found.score]));
  // In promptfoo a higher score is better.
  const score = LOWER_IS_BETTER || result.score === null ? Number(result.passed) : result.score;
  if (LOWER_IS_BETTER && !named.length) namedScores[NAME] = result.score;
  return { pass: result.passed, score, reason: result.explanation ?? result.label ?? `score ${result.score}`, namedScores };
}

/** An error without the places in this file, which promptfoo would show. */
function failure(message) {
  return Object.assign(new Error(message), { stack: `Error: ${message}` });
}

const running = new Map();

/** The evalcell with these parameters, whose sandbox stays open until promptfoo ends. */
function one(config) {
  const key = JSON.stringify(config);
  if (!running.has(key)) running.set(key, started(config, () => running.delete(key)));
  return running.get(key);
}

function started(config, forget) {
  const set = Object.entries(config).flatMap(([name, value]) => ["--set", `${name}=${JSON.stringify(value)}`]);
  const child = spawn(process.env.EVALCELL ?? "evalcell", ["lines", EVALUATOR, ...OPTIONS, ...set]);
  const waiting = new Map();
  const parts = [child, child.stdin, child.stdout, child.stderr];
  let said = "", rows = 0;
  const over = (why) => {
    forget();
    for (const { reject } of waiting.values()) reject(failure(why));
    waiting.clear();
  };
  child.on("error", (error) => over(`evalcell does not start (${error.message}); install it, or put its path into EVALCELL`));
  child.on("close", () => over(said.trim() || "evalcell ended"));
  child.stdin.on("error", () => {});
  child.stderr.on("data", (text) => (said = (said + text).slice(-2000)));
  createInterface({ input: child.stdout }).on("line", (line) => {
    const result = JSON.parse(line);
    waiting.get(result.id)?.resolve(result);
    waiting.delete(result.id);
    if (!waiting.size) parts.forEach((part) => part.unref()); // an idle one keeps no program from its end
  });
  const score = (row) =>
    new Promise((resolve, reject) => {
      const id = String(++rows);
      waiting.set(id, { resolve, reject });
      parts.forEach((part) => part.ref());
      child.stdin.write(JSON.stringify({ ...row, id }) + "\n");
    });
  return { score };
}
