/** What a text's imports bind: each name with the module that it is from, and its name there; `*` is all of it. */
export interface Bound {
  name: string;
  module: string;
  of: string;
}

const IMPORT =
  /^[ \t]*import\s+(type\s+)?([\w$*{},\s]+?)\s*\bfrom\s*(["'])([^"'\n]+)\3[ \t]*(?:with\s*\{[^}]*\})?[ \t]*;?/gm;
const BARE = /^[ \t]*import\s*(["'])[^"'\n]+\1[ \t]*;?/gm;
const ASSIGNED = /^([ \t]*)import\s+([\w$]+)\s*=\s*require\(/gm;

const LATER = /\bimport\(\s*(["'`])([^"'`\n]+)\1\s*\)/g;

/** The text without its imports, in as many lines, and what they bind. */
export function withoutImports(text: string): { text: string; bound: Bound[] } {
  const bound: Bound[] = [];
  const taken = (all: string, isType: string | undefined, clause: string, _quote: string, module: string) => {
    if (!isType || /^\s*(,|from)/.test(clause)) bound.push(...clauses(clause, module));
    return all.replace(/[^\n]/g, "");
  };
  const left = text.replace(IMPORT, taken).replace(BARE, "").replace(ASSIGNED, "$1const $2 = require(").replace(
    LATER,
    "(async () => require($1$2$1))()",
  );
  return { text: left, bound };
}

function clauses(clause: string, module: string): Bound[] {
  const braces = /\{([^}]*)\}/.exec(clause);
  const found: Bound[] = (braces?.[1] ?? "").split(",").map((one) => one.trim()).filter((one) =>
    one && !/^type\s/.test(one)
  ).map((one) => {
    const [of, name] = one.split(/\s+as\s+/);
    return { name: name ?? of, module, of };
  });
  for (const one of clause.replace(/\{[^}]*\}/, "").split(",").map((one) => one.trim())) {
    const whole = /^\*\s*as\s+([\w$]+)$/.exec(one);
    if (whole) found.push({ name: whole[1], module, of: "*" });
    else if (one) found.push({ name: one, module, of: "default" });
  }
  return found;
}

const EXPORTED =
  /^([ \t]*)export\s+(?=(?:declare\s+|abstract\s+|async\s+)?(?:function|class|const|let|var|enum|type|interface|namespace)\b)/gm;
const DEFAULT_NAMED = /^([ \t]*)export\s+default\s+(?=(?:async\s+)?(?:function\s*\*?|class)\s+(?!extends\b)[\w$]+)/gm;
const DEFAULT = /^([ \t]*)export\s+default\s+/gm;
const LISTED = /^[ \t]*export\s+(type\s+)?\{([^}]*)\}[ \t]*(?:from\s*["'][^"'\n]*["'])?[ \t]*;?/gm;

/** The text without `export`, in as many lines; `aliases` has what it exports by another name. */
export function withoutExports(text: string): { text: string; aliases: Map<string, string> } {
  const aliases = new Map<string, string>();
  for (
    const [, name] of text.matchAll(
      /^[ \t]*export\s+default\s+(?:(?:async\s+)?function\s*\*?|class)\s+(?!extends\b)([\w$]+)/gm,
    )
  ) aliases.set("default", name);
  const left = text
    .replace(LISTED, (all: string, isType: string | undefined, names: string) => {
      for (const one of isType ? [] : names.split(",")) {
        const [name, alias] = one.trim().split(/\s+as\s+/);
        if (alias) aliases.set(alias, name);
      }
      return all.replace(/[^\n]/g, "");
    })
    .replace(DEFAULT_NAMED, "$1")
    .replace(EXPORTED, "$1")
    .replace(DEFAULT, "$1module.exports.default = ");
  return { text: left, aliases };
}

const FENCE = /^(`{3,}|~{3,})[ \t]*([^\n`]*)\n([^]*?)^\1[ \t]*$/m;
const OPEN = /^(?:`{3,}|~{3,})[ \t]*([^\n`]*)\n([^]*\S[^]*)/m;
const TYPESCRIPT = /^(ts|tsx|mts|cts|typescript)\b/i;
const GENERIC = /[\w$]<[A-Za-z_$[{][\w$ ,.[\]{}:<>'"]*>\(/;
const QUOTED = /\/\/[^\n]*|\/\*[^]*?\*\/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\$])*`/g; // and comments

/** The first fenced block, to the end if nothing closes it, or all of a text without one; and whether it is TypeScript. */
export function fenced(output: string): { text: string; typed: boolean } {
  const closed = FENCE.exec(output), open = closed ? null : OPEN.exec(output);
  const [word, text] = closed ? [closed[2], closed[3]] : open ? [open[1], open[2]] : ["", output];
  return { text, typed: TYPESCRIPT.test(word.trim()) || isTyped(text) };
}

/** The text with this in place of `import.meta.main`, but where it stands in quotes or a comment. */
export function withMain(text: string, main: string): string {
  const found = new RegExp(`${QUOTED.source}|\\bimport\\.meta\\.main\\b`, "g");
  return text.replace(found, (one) => one === "import.meta.main" ? main : one);
}

/** Whether a text calls with types, `f<number>(1)`: as JavaScript it would compare, and mean something else. */
export function isTyped(text: string): boolean {
  return GENERIC.test(text) && GENERIC.test(text.replace(QUOTED, '""'));
}

/** Finds a name of an evaluated text, such as one of its functions. */
export type Lookup = (name: string) => unknown;

let modules = 0;
const AsyncFunction = Object.getPrototypeOf(async function () {}).constructor;

/**
 * Evaluates a text without imports and exports: as JavaScript as Node runs a file, else as a TypeScript module.
 *
 * A text that is neither throws the compiler's SyntaxError.
 */
export async function evaluated(text: string, typed: boolean): Promise<Lookup> {
  let compiled;
  if (!typed) {
    try {
      compiled = new AsyncFunction(`${text}\n;return (evalcellName) => eval(evalcellName);`);
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
    }
  }
  if (compiled) return await compiled();
  const own = `export const evalcellLookup = (evalcellName: string): unknown => eval(evalcellName);`;
  const module = `${text}\n;${own} // ${++modules}`; // a module of its own each time
  try {
    return (await import(`data:application/typescript;base64,${base64(new TextEncoder().encode(module))}`))
      .evalcellLookup;
  } catch (error) {
    throw error instanceof TypeError && /^(SyntaxError|The module's source code)/.test(error.message)
      ? syntaxError(error.message, text)
      : error;
  }
}

/** As short as the engine's own. */
function syntaxError(message: string, text: string): SyntaxError {
  const line = Number(/:(\d+):\d+\s*$/.exec(message)?.[1] ?? 0);
  const place = line && line <= text.split("\n").length ? ` (line ${line})` : "";
  return new SyntaxError(
    message.replace(/^SyntaxError: |^The module's source code could not be parsed: /, "").split("\n")[0].replace(
      / at data:.*$/,
      "",
    ) + place,
  );
}

function base64(bytes: Uint8Array): string {
  let binary = "";
  for (let at = 0; at < bytes.length; at += 8192) binary += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(binary);
}

/** The line of an evaluated text that a stack is of first; 0 if of none. */
export function lineOf(stack: unknown, text: string): number {
  const lines = text.split("\n").length;
  for (const frame of String(stack).slice(0, 10_000).split("\n")) {
    const found = /<anonymous>:(\d+):\d+\)?$/.exec(frame);
    const line = found
      ? Number(found[1]) - 2
      : Number(/data:application\/typescript[^)]*?:(\d+):\d+\)?$/.exec(frame)?.[1] ?? 0);
    if (line >= 1 && line <= lines) return line;
  }
  return 0;
}

/** The modules that a text requires by name. */
export function required(text: string): string[] {
  return Array.from(text.matchAll(/\brequire\(\s*["'`]([^"'`\n]+)["'`]\s*\)/g), (one) => one[1]);
}
