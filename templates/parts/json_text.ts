const NOTE = " (JSON taken out of the text)";
const OPEN = /^[ \t]*(`{3,}|~{3,})[ \t]*(?:[A-Za-z0-9_+.-]+[ \t]*)?\r?$/;
const PLAIN = "(?:-?(?:0|[1-9][0-9]*)(?:\\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null)";
const SPACE = "[ \\t\\r\\n]*";
const BEGINS = /\{[ \t\r\n]*["}]|\[[ \t\r\n\[]{0,60}["{]|\[[ \t\r\n]*\[[ \t\r\n\[]{0,60}[0-9-]/y;
const FLAT = new RegExp(`\\[${SPACE}(?:${PLAIN}${SPACE}(?:,${SPACE}${PLAIN}${SPACE})*)?\\]`, "y");
const TOKEN = /"(?:[^"\\]|\\[\s\S])*"|["{}\[\]]/g;

/**
 * Where the value is text, the part of it that is to be read as JSON; all of it where there is no such part.
 *
 * `whole`: all of it. `fence`: what stands in its only Markdown fence, with prose around it if it begins like an
 * object or array. `first`, `last`: its first or last object or array; one that is broken counts, too. An array of
 * numbers alone, such as the citation [1], counts where there is nothing else.
 */
export function findJson(value: unknown, extract: string): unknown {
  if (typeof value !== "string" || extract === "whole") return value;
  if (extract === "fence") {
    const blocks = fencedBlocks(value);
    const whole = OPEN.test(value.replace(/^[ \t\r\n]+/, "").split("\n", 1)[0]) && "`~".includes(lastOf(value));
    return blocks.length === 1 && (whole || /^[ \t\r\n]*[{\[]/.test(blocks[0])) ? blocks[0] : value;
  }
  const found = jsonParts(value);
  return found.length === 0 ? value : found[extract === "first" ? 0 : found.length - 1];
}

/** What an explanation ends with if the part is not all of the text. */
export function extractionNote(value: unknown, part: unknown): string {
  return typeof value === "string" && value !== part ? NOTE : "";
}

/** The last character that is no white space. A regular expression takes quadratic time to find it. */
function lastOf(text: string): string {
  let end = text.length;
  while (end > 0 && " \t\r\n".includes(text[end - 1])) end--;
  return end > 0 ? text[end - 1] : " ";
}

/** What stands between the first and last line of each Markdown fence that has both. */
function fencedBlocks(text: string): string[] {
  const blocks: string[] = [];
  let marks = "";
  let inside: string[] = [];
  for (const line of text.split("\n")) {
    const begin = marks === "" ? OPEN.exec(line) : null;
    if (begin !== null) {
      marks = begin[1];
      inside = [];
    } else if (marks !== "" && isClosing(line, marks)) {
      blocks.push(inside.join("\n"));
      marks = "";
    } else {
      inside.push(line);
    }
  }
  return blocks;
}

function isClosing(line: string, marks: string): boolean {
  const at = line.indexOf(marks);
  const around = line.slice(0, Math.max(at, 0)) + line.slice(at + marks.length);
  return at >= 0 && [...around].every((character) => " \t\r".includes(character));
}

/** What begins like an object or array, whole or cut off, and is in no other; arrays of numbers if that is all. */
function jsonParts(text: string): string[] {
  const parts: string[] = [];
  const flat: string[] = [];
  for (let at = 0; at < text.length; ) {
    BEGINS.lastIndex = FLAT.lastIndex = at;
    if (BEGINS.test(text)) {
      const end = endOf(text, at);
      parts.push(text.slice(at, end));
      at = end;
    } else if (FLAT.test(text)) {
      flat.push(text.slice(at, FLAT.lastIndex));
      at = FLAT.lastIndex;
    } else {
      at++;
    }
  }
  return parts.length > 0 ? parts : flat;
}

/** The place after the bracket that closes the one at `start`. */
function endOf(text: string, start: number): number {
  let depth = 0;
  TOKEN.lastIndex = start;
  for (let token = TOKEN.exec(text); token !== null; token = TOKEN.exec(text)) {
    depth += Number("{[".includes(token[0])) - Number("}]".includes(token[0]));
    if (depth === 0) return TOKEN.lastIndex;
    if (token[0] === '"') return text.length;
  }
  return text.length;
}
