/** One of Python's regular expressions as JavaScript's. Throws PatternError for one that is none, or has none. */
export function compiled(pattern: string, flags: string, whole: boolean): RegExp {
  const translated = new Translation(pattern, flags);
  const source = translated.source();
  // V8 also tries the place between the halves of a surrogate pair, where there is neither a character nor the end.
  const anchored = whole ? `^(?:${source})$` : `(?=[^]|$)(?:${source})`;
  return new RegExp(anchored, translated.ignoresCase ? "ui" : "u");
}

export class PatternError extends Error {}

const SETS: Record<string, string> = {
  w: "\\p{L}\\p{N}_",
  d: "\\p{Nd}",
  s: "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000",
};
const ASCII_SETS: Record<string, string> = { w: "A-Za-z0-9_", d: "0-9", s: "\\t-\\r\\x20" };
const CONTROLS: Record<string, number> = { a: 7, f: 12, n: 10, r: 13, t: 9, v: 11, "\\": 92 };
const DIGITS: Record<string, number> = { x: 2, u: 4, U: 8 };
const GROUPS = ["(?:", "(?=", "(?!", "(?<=", "(?<!"];

/** What a quantifier that comes next would repeat. */
type Repeatable = "nothing" | "something" | "repeated";

/** The flags that hold inside one group, and what closes it. */
interface Scope {
  flags: Set<string>;
  close: string;
  number: number;
  at: number;
}

class Translation {
  private at = 0;
  private readonly characters: string[];
  private readonly written: string[] = [];
  private readonly scopes: Scope[];
  private readonly names = new Map<string, number>();
  private groups = 0;
  private last: Repeatable = "nothing";
  private first = true;
  ignoresCase: boolean;

  constructor(pattern: string, flags: string) {
    this.characters = Array.from(pattern);
    this.ignoresCase = flags.includes("i");
    this.scopes = [{ flags: new Set(flags), close: "", number: 0, at: 0 }];
  }

  source(): string {
    while (this.at < this.characters.length) this.element();
    if (this.scopes.length > 1) this.refuse("missing ), unterminated subpattern", this.scope.at);
    return this.written.join("");
  }

  /** In Python's words, so that both languages explain alike. */
  private refuse(why: string, at: number): never {
    const before = this.characters.slice(0, at);
    const line = before.filter((character) => character === "\n").length + 1;
    const place = this.characters.includes("\n") ? ` (line ${line}, column ${at - before.lastIndexOf("\n")})` : "";
    throw new PatternError(`${why} at position ${at}${place}`);
  }

  private missing(what: string, at: number): never {
    this.refuse(`JavaScript has no ${what}; this pattern needs Python:`, at);
  }

  private get scope(): Scope {
    return this.scopes[this.scopes.length - 1];
  }

  private has(flag: string): boolean {
    return this.scope.flags.has(flag);
  }

  private text(from: number, to = this.at): string {
    return this.characters.slice(from, to).join("");
  }

  private take(text: string): boolean {
    const found = this.text(this.at, this.at + text.length) === text;
    if (found) this.at += text.length;
    return found;
  }

  /** A group's name, up to what ends it. */
  private name(end: string): string {
    const start = this.at;
    const stop = this.characters.indexOf(end, start);
    const name = this.text(start, stop < 0 ? this.characters.length : stop);
    if (name === "") this.refuse("missing group name", start);
    if (stop < 0) this.refuse(`missing ${end}, unterminated name`, start);
    const known = /^[\p{ID_Start}_][\p{ID_Continue}]*$/u.test(name);
    if (!known) this.refuse(`bad character in group name '${name}'`, start);
    this.at = stop + 1;
    return name;
  }

  private comment(at: number): void {
    const end = this.characters.indexOf(")", this.at);
    if (end < 0) this.refuse("missing ), unterminated comment", at);
    this.at = end + 1;
  }

  private write(text: string, last: Repeatable = "something"): void {
    this.written.push(text);
    this.last = last;
    this.first = false;
  }

  private element(): void {
    const character = this.characters[this.at++];
    if (this.has("x") && /[\t-\r ]/.test(character)) return;
    if (this.has("x") && character === "#") {
      while (this.at < this.characters.length && this.characters[this.at++] !== "\n");
      return;
    }
    switch (character) {
      case "\\":
        return this.escape();
      case "[":
        return this.write(this.set());
      case "(":
        return this.open();
      case ")":
        return this.close();
      case "|":
        return this.write("|", "nothing");
      case ".":
        return this.write(this.has("s") ? "[^]" : "[^\\n]");
      case "^":
        return this.write(this.has("m") ? "(?<![^\\n])" : "^", "nothing");
      case "$":
        return this.write(this.has("m") ? "(?![^\\n])" : "(?=\\n?$)", "nothing");
      case "*":
      case "+":
      case "?":
        return this.repeat(character);
      case "{":
        return this.braces();
      default:
        this.write(literal(character));
    }
  }

  private braces(): void {
    const at = this.at - 1;
    const bounds = /^(?:(\d+)|(\d*),(\d*))\}/.exec(this.text(this.at, this.at + 40));
    if (bounds === null) return this.write(literal("{"));
    const [found, times, least, most] = bounds;
    if (most && Number(least) > Number(most)) this.refuse("min repeat greater than max repeat", this.at);
    this.at += found.length;
    this.repeat(times === undefined ? `{${least || 0},${most}}` : `{${times}}`, at);
  }

  private repeat(quantifier: string, at = this.at - 1): void {
    if (this.last === "nothing") this.refuse("nothing to repeat", at);
    if (this.last === "repeated") this.refuse("multiple repeat", at);
    if (this.take("+")) this.missing("possessive quantifiers", at);
    this.write(quantifier + (this.take("?") ? "?" : ""), "repeated");
  }

  private open(): void {
    const at = this.at - 1;
    if (!this.take("?")) return this.enter("(", ")", at, ++this.groups);
    if (this.take("#")) return this.comment(at);
    if (this.take("P<")) return this.named(at);
    if (this.take("P=")) return this.again();
    if (this.take(">")) this.missing("atomic groups", at);
    if (this.take("(")) this.missing("conditions", at);
    const start = GROUPS.find((group) => this.take(group.slice(2)));
    if (start === "(?:") return this.enter(start, ")", at);
    // A lookaround can be repeated in Python, and in JavaScript only inside a group.
    if (start) return this.enter(`(?:${start}`, "))", at);
    this.flagged(at);
  }

  private named(at: number): void {
    const start = this.at;
    const name = this.name(">");
    const [before, number] = [this.names.get(name), ++this.groups];
    if (before) this.refuse(`redefinition of group name '${name}' as group ${number}; was group ${before}`, start);
    this.names.set(name, number);
    this.enter(`(?<${name}>`, ")", at, number);
  }

  private again(): void {
    const start = this.at;
    const name = this.name(")");
    this.reference(this.names.get(name) ?? this.refuse(`unknown group name '${name}'`, start), start);
  }

  private enter(start: string, close: string, at: number, number = 0, flags = this.scope.flags): void {
    this.write(start, "nothing");
    this.scopes.push({ flags: new Set(flags), close, number, at });
  }

  private close(): void {
    const { close } = this.scope;
    if (this.scopes.length === 1) this.refuse("unbalanced parenthesis", this.at - 1);
    this.scopes.pop();
    this.write(close);
  }

  /** `(?i)` for all that follows, or `(?i-s:` for a group. */
  private flagged(at: number): void {
    const found = /^([aimsux]*)(-[imsx]+)?([:)])/.exec(this.text(this.at, this.at + 40));
    if (found === null || found[0] === ")") this.refuseExtension(at);
    const [read, added, removed = "", end] = found;
    this.at += read.length;
    if (added.includes("a") && added.includes("u")) {
      this.refuse("bad inline flags: flags 'a', 'u' and 'L' are incompatible", at + 2 + added.length);
    }
    if (Array.from(removed).some((flag) => added.includes(flag))) {
      this.refuse("bad inline flags: flag turned on and off", this.at - 1);
    }
    if (removed && end === ")") this.refuse("missing :", this.at - 1);
    const flags = new Set([...this.scope.flags, ...added]);
    for (const flag of added.includes("u") ? `${removed}a` : removed) flags.delete(flag);
    if (flags.has("a") && flags.has("i")) this.missing("flag 'a' beside 'i'", at);
    if (end === ":") {
      const turned = flags.has("i") === this.has("i") ? "(?:" : flags.has("i") ? "(?i:" : "(?-i:";
      return this.enter(turned, ")", at, 0, flags);
    }
    if (!this.first) this.refuse("global flags not at the start of the expression", at);
    this.scope.flags = flags;
    this.ignoresCase = flags.has("i");
  }

  private refuseExtension(at: number): never {
    const [letter, next] = [this.characters[this.at], this.characters[this.at + 1]];
    const two = letter === "<" || letter === "P";
    if (letter === undefined || (two && next === undefined)) {
      this.refuse("unexpected end of pattern", this.characters.length);
    }
    if (/[aimsux-]/.test(letter)) this.refuse("bad inline flags", at + 2);
    this.refuse(`unknown extension ?${letter}${two ? next : ""}`, at + 1);
  }

  private reference(number: number, at: number): void {
    if (this.scopes.some((scope) => scope.number === number)) this.refuse("cannot refer to an open group", at);
    this.write(`(?:\\${number})`);
  }

  private escape(): void {
    const at = this.at - 1;
    const letter = this.characters[this.at++];
    const word = this.wordSet();
    switch (letter) {
      case "A":
        return this.write("^", "nothing");
      case "Z":
        return this.write("$", "nothing");
      case "b":
        return this.write(`(?=(?<=${word})(?!${word})|(?<!${word})(?=${word}))`, "nothing");
      case "B":
        return this.write(`(?=(?<=${word})(?=${word})|(?<!${word})(?!${word}))`, "nothing");
    }
    const octal = this.octal(/^(?:0[0-7]{0,2}|[1-7][0-7]{2})/, at);
    if (octal === null && /[1-9]/.test(letter ?? "")) {
      if (/[0-9]/.test(this.characters[this.at] ?? "")) this.at++;
      const number = Number(this.text(at + 1));
      if (number > this.groups) this.refuse(`invalid group reference ${number}`, at + 1);
      return this.reference(number, at);
    }
    const found = octal ?? this.escaped(letter, at);
    if (typeof found === "number") return this.write(literal(String.fromCodePoint(found)));
    this.write(found.startsWith("[") ? found : `[${found}]`);
  }

  private wordSet(): string {
    return `[${(this.has("a") ? ASCII_SETS : SETS).w}]`;
  }

  private octal(form: RegExp, at: number): number | null {
    const digits = form.exec(this.text(at + 1, at + 4));
    if (digits === null) return null;
    this.at = at + 1 + digits[0].length;
    const code = parseInt(digits[0], 8);
    if (code > 0o377) this.refuse(`octal escape value \\${digits[0]} outside of range 0-0o377`, at);
    return code;
  }

  /** What stands after a backslash, in a set or outside: a character, or a set, if it can be without brackets. */
  private escaped(letter: string | undefined, at: number): number | string {
    if (letter === undefined) this.refuse("bad escape (end of pattern)", at);
    if (letter in CONTROLS) return CONTROLS[letter];
    if (letter in DIGITS) {
      const [digits] = /^[0-9a-f]*/i.exec(this.text(this.at, this.at + DIGITS[letter])) as RegExpExecArray;
      this.at += digits.length;
      if (digits.length < DIGITS[letter]) this.refuse(`incomplete escape ${this.text(at)}`, at);
      const code = parseInt(digits, 16);
      return code <= 0x10ffff ? code : this.refuse(`bad escape ${this.text(at)}`, at);
    }
    const sets = this.has("a") ? ASCII_SETS : SETS;
    if (letter in sets) return sets[letter];
    if (letter.toLowerCase() in sets) return `[^${sets[letter.toLowerCase()]}]`;
    if (letter === "N") this.missing("names of characters", at);
    if (/[A-Za-z0-9]/.test(letter)) this.refuse(`bad escape \\${letter}`, at);
    return letter.codePointAt(0) as number;
  }

  private set(): string {
    const start = this.at - 1;
    const negated = this.take("^");
    let inner = "";
    const sets: string[] = [];
    for (let empty = true; empty || this.characters[this.at] !== "]"; empty = false) {
      const member = this.range(start);
      if (member.startsWith("[")) sets.push(member);
      else inner += member;
    }
    this.at++;
    // The flag `v` would allow sets in sets, but there V8 lets `(?i:…)` reach beyond its group.
    if (sets.length === 0) return `[${negated ? "^" : ""}${inner}]`;
    const any = [...sets, `[${inner}]`].join("|");
    return negated ? `(?:(?!${any})[^])` : `(?:${any})`;
  }

  private range(start: number): string {
    const at = this.at;
    const low = this.member(start);
    if (this.characters[this.at] !== "-" || this.characters[this.at + 1] === "]") {
      return typeof low === "string" ? low : literal(String.fromCodePoint(low));
    }
    this.at++;
    const high = this.member(start);
    if (typeof low === "string" || typeof high === "string" || low > high) {
      this.refuse(`bad character range ${this.text(at)}`, at);
    }
    return `${literal(String.fromCodePoint(low))}-${literal(String.fromCodePoint(high))}`;
  }

  private member(start: number): number | string {
    const at = this.at;
    const character = this.characters[this.at++];
    if (character === undefined) this.refuse("unterminated character set", start);
    if (character !== "\\") return character.codePointAt(0) as number;
    const octal = this.octal(/^[0-7]{1,3}/, at);
    if (octal !== null) return octal;
    const letter = this.characters[this.at++];
    return letter === "b" ? 8 : this.escaped(letter, at);
  }
}

/** A character that stands for itself, inside of a set or outside. */
function literal(character: string): string {
  return /[A-Za-z0-9]/.test(character) ? character : `\\u{${(character.codePointAt(0) as number).toString(16)}}`;
}
