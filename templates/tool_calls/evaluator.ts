// /// script
// [tool.evalcell.output]
// kind = "continuous"
// lower_bound = 0
// upper_bound = 1
// direction = "maximize"
//
// [tool.evalcell.parameters.order]
// type = "string"
// default = "any"
// choices = ["any", "same"]
// description = "Whether the calls may come in any order, or must come in that of the reference."
//
// [tool.evalcell.parameters.arguments]
// type = "string"
// default = "all"
// choices = ["all", "expected", "none"]
// description = "Which arguments count: all, those that the reference has, or none, so that names alone do."
//
// [tool.evalcell.parameters.count_extra]
// type = "boolean"
// default = true
// description = "Whether calls beyond the expected ones lower the score."
//
// [tool.evalcell.parameters.extract]
// type = "string"
// default = "fence"
// choices = ["whole", "fence", "first", "last"]
// description = "What of a text is read as JSON: all of it, its only Markdown fence, its first or last object or array."
// ///
/**
 * How well the tool calls of an agent match the expected ones, from 0 to 1: names, arguments by field, missing and extra.
 *
 * A call is paired with an expected one of the same name, the best pairs first; with `order` "same" in the order of the
 * reference. A pair scores the share of its arguments that are equal, among those that either side has: 1 without any. The
 * score is the sum over the pairs divided by the number of expected calls and extra ones. No calls where none are expected
 * score 1. Equal is what JSON calls equal: 1 and 1.0 are, true and 1 are not. The label is `match`, or what is
 * wrong first: `wrong_tool`, `order`, `missing`, `extra` or `arguments`.
 *
 * Both sides are read as they come: a call, a list of them, a message, or a list of messages, of which those of the
 * assistant count. Known are OpenAI's `tool_calls`, `function_call` items and completions, Anthropic's `tool_use` blocks,
 * LangChain's messages, Gemini's `functionCall`, and `{"name": …, "arguments": {…}}`. Text is parsed as JSON, or what
 * `extract` takes out of it. An output that is other text, null or a message without calls makes none. One that is broken
 * JSON or of another shape has the label `invalid` and scores 0; such a reference has that label and no score.
 *
 * Source: none; the measure is the share of matching fields, as in the Berkeley Function-Calling Leaderboard's checks.
 */
import { extractionNote, findJson } from "../parts/json_text.ts";

type Arguments = {
  output: unknown;
  reference: unknown;
  order?: string;
  arguments?: string;
  count_extra?: boolean;
  extract?: string;
};
type Call = { name: string; arguments: unknown };
type Pair = [number, number];
type Fields = Record<string, unknown>;

const SHOWN_NAMES = 5;
const WORDS = 60;
const DEPTH = 30;
const ARGUMENTS = ["arguments", "args", "input", "parameters"];
const CALL_KEYS = ["tool_calls", "invalid_tool_calls", "function_call", "functionCall", "function"];
const INNER = ["message", "messages", "choices", "output", "content", "parts", "candidates", "kwargs", "data"];
const BESIDE = ["id", "type", "index", "call_id"];
const OTHER_ROLES: unknown[] = ["user", "system", "developer", "tool", "function"];
const OTHER_TYPES: unknown[] = ["human", "system", "tool", "tool_result", "function_call_output"];

export function evaluate(given: Arguments) {
  const { output, reference, order = "any", arguments: which = "all", count_extra = true, extract = "fence" } = given;
  const part = findJson(output, extract);
  let score: number | null = null; // a reference that cannot be read says nothing about the output
  let expected: Call[];
  let actual: Call[];
  try {
    expected = readCalls(findJson(reference, extract), "the reference", false);
    score = 0;
    actual = readCalls(part, "the output", true);
  } catch (error) {
    return { label: "invalid", score, explanation: `Failed to read calls: ${(error as Error).message}` };
  }
  const pairs = order === "same" ? inOrder(expected, actual, which) : inAnyOrder(expected, actual, which);
  const missing = expected.filter((_, at) => !pairs.some(([i]) => i === at)).map((call) => call.name);
  const extra = actual.filter((_, at) => !pairs.some(([, j]) => j === at)).map((call) => call.name);
  const wrong: string[] = [];
  let whole = 0;
  let points = 0;
  for (const [i, j] of pairs) {
    const [share, fields] = compare(expected[i], actual[j], which);
    points += share;
    whole += Number(share === 1);
    if (fields.length > 0) wrong.push(`${cut(expected[i].name)} (${joinNames(fields)})`);
  }
  const count = expected.length + (count_extra ? extra.length : 0);
  const told = [`${whole} of ${expected.length} expected call(s) made as expected, of ${actual.length} made`];
  if (wrong.length > 0) told.push(`arguments differ: ${joinNames(wrong)}`);
  if (missing.length > 0) told.push(`missing: ${joinNames(missing)}`);
  if (extra.length > 0) told.push(`extra: ${joinNames(extra)}`);
  return {
    label: labelOf(missing, count_extra ? extra : [], wrong),
    score: count > 0 ? points / count : 1,
    explanation: `${told.join("; ")}.${extractionNote(output, part)}`,
  };
}

function labelOf(missing: string[], extra: string[], wrong: string[]): string {
  if (missing.length > 0 && extra.length > 0) {
    return JSON.stringify(missing.toSorted()) === JSON.stringify(extra.toSorted()) ? "order" : "wrong_tool";
  }
  return missing.length > 0 ? "missing" : extra.length > 0 ? "extra" : wrong.length > 0 ? "arguments" : "match";
}

/** Throws for what cannot be read; text that is no JSON makes no call, if that is allowed or it is blank. */
function readCalls(value: unknown, name: string, prose: boolean): Call[] {
  let found = value;
  if (typeof value === "string") {
    if (!/^[ \t\r\n]*[{[]/.test(value)) {
      if (prose || /^[ \t\r\n]*$/.test(value)) return [];
      throw new Error(`${name} is not valid JSON`);
    }
    try {
      found = JSON.parse(value);
    } catch {
      throw new Error(`${name} is not valid JSON`);
    }
  }
  const calls = findCalls(found);
  if (calls === null) throw new Error(`${name} has no tool calls in a known shape`);
  return calls;
}

/** The calls in their order; null for what is neither a call nor anything that may hold some. */
function findCalls(value: unknown, depth = 0): Call[] | null {
  if (value === null || value === undefined) return [];
  if (depth > DEPTH) return null;
  if (Array.isArray(value)) {
    const every = value.map((one) => (typeof one === "string" ? [] : findCalls(one, depth + 1)));
    return every.some((calls) => calls === null) ? null : (every as Call[][]).flat();
  }
  if (!isObject(value) || Object.keys(value).length === 0) return null;
  const has = (key: string) => Object.hasOwn(value, key);
  if (OTHER_ROLES.includes(value.role) || OTHER_TYPES.includes(value.type)) return [];
  for (const key of CALL_KEYS) {
    const held = has(key) ? value[key] : null;
    if (isObject(held) || Array.isArray(held)) {
      if (Object.keys(held).length > 0) return findCalls(held, depth + 1);
    }
  }
  if (typeof value.name === "string") {
    const key = ARGUMENTS.find(has);
    if (key !== undefined) return [{ name: value.name, arguments: readArguments(value[key]) }];
  }
  for (const key of INNER) {
    if (has(key)) return isObject(value[key]) || Array.isArray(value[key]) ? findCalls(value[key], depth + 1) : [];
  }
  if (typeof value.name === "string" && Object.keys(value).every((key) => key === "name" || BESIDE.includes(key))) {
    return [{ name: value.name, arguments: {} }];
  }
  return has("tool_calls") || has("role") || has("type") ? [] : null;
}

/** Text as the JSON that it is; nothing as no arguments. */
function readArguments(value: unknown): unknown {
  if (value === null || value === undefined || (Array.isArray(value) && value.length === 0)) return {};
  if (typeof value !== "string") return value;
  if (/^[ \t\r\n]*$/.test(value)) return {};
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}

/** Pairs of calls of one name, the best first, each call in one pair at most; in the order of the expected ones. */
function inAnyOrder(expected: Call[], actual: Call[], which: string): Pair[] {
  const able: [number, number, number][] = [];
  expected.forEach((e, i) =>
    actual.forEach((a, j) => {
      if (e.name === a.name) able.push([compare(e, a, which)[0], i, j]);
    })
  );
  const pairs = new Map<number, number>();
  const used = new Set<number>();
  for (const [, i, j] of able.sort((a, b) => b[0] - a[0] || a[1] - b[1] || a[2] - b[2])) {
    if (pairs.has(i) || used.has(j)) continue;
    pairs.set(i, j);
    used.add(j);
  }
  return [...pairs].sort((a, b) => a[0] - b[0]);
}

/** The most pairs of calls of one name that come in the same order on both sides, and of these the best. */
function inOrder(expected: Call[], actual: Call[], which: string): Pair[] {
  const best = Array.from({ length: expected.length + 1 }, () => new Array<number>(actual.length + 1).fill(0));
  const gains = new Map<string, number>();
  for (let i = expected.length - 1; i >= 0; i--) {
    for (let j = actual.length - 1; j >= 0; j--) {
      best[i][j] = Math.max(best[i + 1][j], best[i][j + 1]);
      if (expected[i].name !== actual[j].name) continue;
      const gain = 1 + compare(expected[i], actual[j], which)[0] / (expected.length + 1);
      gains.set(`${i} ${j}`, gain);
      best[i][j] = Math.max(best[i][j], gain + best[i + 1][j + 1]);
    }
  }
  const pairs: Pair[] = [];
  for (let i = 0, j = 0; i < expected.length && j < actual.length; ) {
    const gain = gains.get(`${i} ${j}`);
    if (gain !== undefined && best[i][j] === gain + best[i + 1][j + 1]) pairs.push([i++, j++]);
    else if (best[i][j] === best[i + 1][j]) i++;
    else j++;
  }
  return pairs;
}

/** The share of arguments that are equal, and the names of the others. */
function compare(expected: Call, actual: Call, which: string): [number, string[]] {
  const [e, a] = [expected.arguments, actual.arguments];
  if (which === "none") return [1, []];
  if (!isObject(e) || !isObject(a)) return equal(e, a) ? [1, []] : [0, ["all"]];
  const names = Object.keys(which === "expected" ? e : { ...e, ...a }).sort();
  const wrong = names.filter((name) => !Object.hasOwn(e, name) || !Object.hasOwn(a, name) || !equal(e[name], a[name]));
  return [names.length > 0 ? (names.length - wrong.length) / names.length : 1, wrong];
}

function equal(expected: unknown, actual: unknown): boolean {
  const pairs: [unknown, unknown][] = [[expected, actual]];
  // A list of what is left rather than recursion, which ends in an error some thousand levels down.
  while (pairs.length > 0) {
    const [e, a] = pairs.pop() as [unknown, unknown];
    if (isObject(e) && isObject(a)) {
      const keys = Object.keys(e);
      if (keys.length !== Object.keys(a).length || !keys.every((key) => Object.hasOwn(a, key))) return false;
      for (const key of keys) pairs.push([e[key], a[key]]);
    } else if (Array.isArray(e) && Array.isArray(a)) {
      if (e.length !== a.length) return false;
      for (let at = 0; at < e.length; at++) pairs.push([e[at], a[at]]);
    } else if (e !== a) {
      return false;
    }
  }
  return true;
}

function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function joinNames(names: string[]): string {
  const more = names.length > SHOWN_NAMES ? ` and ${names.length - SHOWN_NAMES} more` : "";
  return names.slice(0, SHOWN_NAMES).map(cut).join(", ") + more;
}

/** Characters are code points, as in Python. */
function cut(name: string): string {
  const characters = [...name];
  return characters.length <= WORDS ? name : characters.slice(0, WORDS - 1).join("") + "…";
}
