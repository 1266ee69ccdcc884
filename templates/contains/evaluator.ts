// /// script
// [tool.evalcell.output]
// kind = "categorical"
// labels = {"true" = 1.0, "false" = 0.0}
// direction = "maximize"
//
// [tool.evalcell.mapping]
// text = "output"
//
// [tool.evalcell.parameters]
// words = {type = ["string", "any"], description = "What to look for, separated by commas."}
// text = {type = "any", description = "Where to look."}
// case_sensitive = {type = "boolean", default = false, description = "Whether upper and lower case differ."}
// require_all = {type = "boolean", default = false, description = "Whether every word must be there, or any one."}
// ///
/**
 * Whether a text contains one of some words, or all of them.
 *
 * `words` is one text with commas between the words, and what white space stands around each does not belong to it. A
 * word is found anywhere, also inside a longer one; a word with a comma in it cannot be looked for. Without any word
 * the label is `false`, with `require_all` too. Without `case_sensitive`, both sides are compared in lower case. Values
 * that are not text are taken as Python's `str` writes them.
 *
 * Source: the built-in evaluator `contains` of Arize Phoenix.
 */
import { cut } from "../parts/cut.ts";
import { pythonText } from "../parts/python_text.ts";

export function evaluate(
  { words, text, case_sensitive = false, require_all = false }: {
    words: unknown;
    text: unknown;
    case_sensitive?: boolean;
    require_all?: boolean;
  },
) {
  const wanted = pythonText(words).split(",").map(stripped).filter((word) => word !== "");
  if (wanted.length === 0) {
    return { label: "false", score: 0, explanation: "No valid words were provided to check." };
  }
  const whole = pythonText(text);
  const searched = case_sensitive ? whole : whole.toLowerCase();
  const there = wanted.map((word) => searched.includes(case_sensitive ? word : word.toLowerCase()));
  const found = require_all ? there.every(Boolean) : there.some(Boolean);
  const explanation = explained(wanted, there, found, require_all, whole);
  return { label: found ? "true" : "false", score: found ? 1 : 0, explanation };
}

function explained(wanted: string[], there: boolean[], found: boolean, requireAll: boolean, text: string): string {
  const start = requireAll
    ? (found ? "All of the words" : "Not all of the words")
    : (found ? "One or more of the words" : "None of the words");
  const told = `${start} [${wanted.join(", ")}] were found in the text: '${cut(text)}'.`;
  if (requireAll === found) return told;
  const named = wanted.filter((_, at) => there[at] === found).join(", ");
  return `${told} ${found ? "Matched" : "Missing"}: ${named}`;
}

/** As Python strips: `trim` knows a byte order mark as white space, and not the separators of ASCII. */
function stripped(word: string): string {
  const space = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/;
  let [from, to] = [0, word.length];
  while (from < to && space.test(word[from])) from++;
  while (from < to && space.test(word[to - 1])) to--;
  return word.slice(from, to);
}
