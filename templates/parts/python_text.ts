/** A JSON value as Python's `str` writes it, so that text made of other values is the same in both languages. */
export function pythonText(value: unknown): string {
  return typeof value === "string" ? value : represented(value);
}

function represented(value: unknown): string {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "number") return numeral(value);
  if (typeof value === "string") return quoted(value);
  if (Array.isArray(value)) return `[${value.map(represented).join(", ")}]`;
  return `{${Object.entries(value).map(([key, held]) => `${quoted(key)}: ${represented(held)}`).join(", ")}}`;
}

/** JSON's 1.0 is 1 here: JavaScript has one kind of number. */
function numeral(value: number): string {
  if (value === 0 || Math.abs(value) >= 1e-4) return String(value);
  return value.toExponential().replace(/e-(\d)$/, "e-0$1");
}

function quoted(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const unprintable = /[\\'"]|[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu;
  return quote + text.replace(unprintable, (character) => escaped(character, quote)) + quote;
}

function escaped(character: string, quote: string): string {
  const short: Record<string, string> = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", [quote]: `\\${quote}` };
  if (character in short) return short[character];
  if (character === "'" || character === '"') return character;
  const code = character.codePointAt(0) as number;
  const hex = code.toString(16);
  if (code < 0x100) return `\\x${hex.padStart(2, "0")}`;
  return code < 0x10000 ? `\\u${hex.padStart(4, "0")}` : `\\U${hex.padStart(8, "0")}`;
}
