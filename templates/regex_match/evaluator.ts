// /// script
// [tool.evalcell.output]
// kind = "categorical"
// labels = {match = 1.0, no_match = 0.0}
// direction = "maximize"
//
// [tool.evalcell.parameters]
// pattern = {type = "string", description = "A regular expression, as Python's re reads them."}
// flags = {type = "string", default = "", description = "Any of i (case), m (lines), s (dot), x (verbose): \"im\"."}
// full_match = {type = "boolean", default = false, description = "Whether it must match all of the output."}
// group = {type = ["integer", "string", "null"], description = "The group that must equal the reference, if any."}
// ///
/**
 * Whether the output matches a regular expression, and with `group`, whether what it captures equals the reference.
 *
 * The expression is one of Python's `re`, as in the Python template, so that both give the same results. The first
 * match counts. `flags` are letters: `i` for upper and lower case alike, `m` for `^` and `$` at every line, `s` for a
 * dot that matches line feeds too, `x` for white space and comments in the pattern. `group` is a number or a name; its
 * text must be the reference, or one of a list, character by character. Values that are not text are taken as Python's
 * `str` writes them. A pattern, flag or group that cannot be used fails the row.
 *
 * Source: Python's module re.
 */
import { cut } from "../parts/cut.ts";
import { compiled } from "../parts/pattern.ts";
import { pythonText } from "../parts/python_text.ts";
import { references } from "../parts/references.ts";

export function evaluate(
  { output, pattern, flags = "", full_match = false, group = null, reference = null }: {
    output: unknown;
    pattern: string;
    flags?: string;
    full_match?: boolean;
    group?: number | string | null;
    reference?: unknown;
  },
) {
  const expression = compilePattern(pattern, flags, full_match);
  const found = expression.exec(pythonText(output));
  if (group !== null) return compare(expression, found, group, reference);
  if (found === null) return noMatch(`The pattern does not match${full_match ? " the whole output" : ""}.`);
  return { label: "match", score: 1, explanation: `The pattern matches '${cut(found[0])}'.` };
}

function compilePattern(pattern: string, flags: string, whole: boolean): RegExp {
  const unknown = Array.from(flags).find((letter) => !"imsx".includes(letter));
  if (unknown !== undefined) throw new RangeError(`\`flags\` may have the letters i, m, s and x, not '${unknown}'`);
  try {
    return compiled(pattern, flags, whole);
  } catch (error) {
    throw new RangeError(`\`pattern\` is no regular expression: ${(error as Error).message}`);
  }
}

function compare(expression: RegExp, found: RegExpExecArray | null, group: number | string, reference: unknown) {
  if (!hasGroup(expression, group)) throw new RangeError(`the pattern has no group ${group}`);
  if (reference === null) throw new RangeError("`group` is compared with the reference, and this row has none");
  if (found === null) return noMatch("The pattern does not match.");
  const captured = typeof group === "number" ? found[group] : found.groups?.[group];
  if (captured === undefined) return noMatch(`Group ${group} has no part in the match.`);
  const wanted = references(reference, captured).map(pythonText);
  if (!wanted.includes(captured)) return noMatch(`Group ${group} is '${cut(captured)}', not '${cut(wanted[0])}'.`);
  return { label: "match", score: 1, explanation: `Group ${group} is '${cut(captured)}', as the reference.` };
}

/** With an alternative that always matches, the groups can be counted. */
function hasGroup(expression: RegExp, group: number | string): boolean {
  const any = new RegExp(`${expression.source}|`, expression.flags).exec("") as RegExpExecArray;
  if (typeof group === "number") return group in any;
  return any.groups !== undefined && group in any.groups;
}

function noMatch(explanation: string) {
  return { label: "no_match", score: 0, explanation };
}
