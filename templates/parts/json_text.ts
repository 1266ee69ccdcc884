/**
 * What stands between a Markdown fence's first and last line, or the text as it is where it is no fence as a whole.
 *
 * The first line is three or more backticks or tildes, and perhaps a word such as `json`; the last one is the same
 * marks alone. Both may be indented. Text before or after them makes it prose.
 */
export function unfenced(text: string): string {
  const whole = text.replace(/^[ \t\r\n]+/, "");
  const lines = whole.slice(0, lastOf(whole)).split("\n");
  const marks = /^(`{3,}|~{3,})[ \t]*(?:[A-Za-z0-9_+.-]+[ \t]*)?\r?$/.exec(lines[0]);
  const closed = lines.length > 1 && marks !== null && lines[lines.length - 1].replace(/^[ \t]+/, "") === marks[1];
  return closed ? lines.slice(1, -1).join("\n") : text;
}

/** Where white space at the end begins. A regular expression takes quadratic time to find it. */
function lastOf(text: string): number {
  let end = text.length;
  while (end > 0 && " \t\r\n".includes(text[end - 1])) end--;
  return end;
}
