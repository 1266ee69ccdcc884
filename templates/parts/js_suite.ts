/** How many cases held and failed, and how the first one failed. */
export class Verdict {
  held = 0;
  failed = 0;
  first = "";
  questions: Questions;
  every: boolean;

  constructor(questions: Questions, every: boolean) {
    this.questions = questions;
    this.every = every;
  }

  hold() {
    if (!this.questions.missing) this.held++;
  }

  /** Counts a case that failed. Throws Stop if no other one counts any more. */
  fail(what: string, error: any) {
    if (error instanceof Stop) throw error;
    if (this.questions.missing) return;
    const message = error instanceof Error ? `${error.name}: ${error.message.split("\n")[0]}` : short(error);
    if (++this.failed === 1) this.first = [what, this.questions.last, message].filter(Boolean).join("; ").slice(0, 600);
    if (!this.every) throw new Stop();
  }
}

type Step = () => unknown;
let runs = 0;

/** Runs unit tests against stand-ins of a program: asserts, console.assert, or tests as of node:test, Jest and Vitest. */
export class Suite {
  questions: Questions;
  verdict: Verdict;
  text: string;
  module: string;
  entry: string;
  tests: { name: string; run: Step }[] = [];
  before: Step[] = [];
  after: Step[] = [];
  groups: string[] = [];
  inTest = false;

  constructor(text: string, module: string, entry: string, questions: Questions, verdict: Verdict) {
    this.questions = questions;
    this.verdict = verdict;
    this.text = text;
    this.module = module;
    this.entry = entry;
  }

  /** Calls of a batch share their realm: what a run adds to it is taken away again. */
  async run() {
    const before = new Set(Object.getOwnPropertyNames(globalThis));
    try {
      await this.runAll();
    } finally {
      for (const name of Object.getOwnPropertyNames(globalThis)) if (!before.has(name)) delete (globalThis as any)[name];
    }
  }

  async runAll() {
    const kit: any = this.kit();
    const realm: any = globalThis;
    const from = (name: string) => this.from(name, kit);
    const names = this.names();
    realm.evalcell_from = async (name: string) => from(name) ?? (await import(name));
    realm.require = (name: string) => from(name) ?? this.refuse(`they require ${name}`);
    Object.assign(realm, { assert: kit.assert, ...kit.runner });
    Object.assign(console, { assert: (holds: unknown, ...words: unknown[]) => kit.assert(holds, words.map(String).join(" ") || undefined) });
    const kinds = this.kinds(names);
    if (kinds === undefined) return;
    const value = (name: string) => {
      const told = kinds === this.questions.unknown || !Object.hasOwn(kinds, name) ? undefined : kinds[name];
      return told === undefined || typeof told === "function" ? this.questions.standForName(name) : told;
    };
    const program: any = Object.fromEntries(names.map((name) => [name, value(name)]));
    this.program = new Proxy(program, { get: (_, name) => (typeof name !== "string" || name === "then" ? undefined : (program[name] ??= value(name))) });
    for (const name of names) {
      if (!(name in realm) || name === this.entry) Object.defineProperty(realm, name, { value: program[name], writable: true, configurable: true });
    }
    try {
      // What runs first says that the tests could be read; no text is loaded twice.
      const all = `globalThis.evalcell_began = true; ${this.source()}// ${++runs}`;
      await import(`data:application/typescript;charset=utf-8,${encodeURIComponent(all)}`);
      if (this.entry && typeof realm.check === "function") await realm.check(program[this.entry]);
      for (const { name, run } of this.tests) await this.one(name, run);
    } catch (error) {
      if (error instanceof Stop) return;
      if (!realm.evalcell_began) throw new Error(`the tests cannot be read: ${firstLine(error)}`);
      try {
        this.verdict.fail(this.place(error), error);
      } catch {
        // no other case counts
      }
    }
  }

  program: any;

  /** What the program has by these names. Undefined where the verdict needs no more: it answers with what has none. */
  kinds(names: string[]): any {
    try {
      const kinds = this.questions.ask({ names });
      if (kinds !== this.questions.unknown && (kinds === null || Object.getPrototypeOf(kinds) !== Object.prototype)) {
        this.questions.spoil("it does not say what it defines");
      }
      return kinds;
    } catch {
      this.questions.spoilt ||= "it does not say what it defines";
    }
  }

  async one(name: string, run: Step) {
    this.inTest = true;
    try {
      for (const step of this.before) await step();
      await run();
      for (const step of this.after) await step();
      this.verdict.hold();
    } catch (error) {
      this.verdict.fail(`${name}, ${this.place(error)}`, error);
    } finally {
      this.inTest = false;
    }
  }

  refuse(why: string): never {
    this.questions.refused ||= `the tests cannot be run: ${why}`;
    throw new Stop();
  }

  /** The names in the tests that may be the program's. */
  names(): string[] {
    const code = this.text.replace(/\/\/.*|\/\*[\s\S]*?\*\/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'/g, " ");
    const found = new Set([...code.matchAll(/(?<![\w$.])[A-Za-z_$][\w$]*/g)].map(([name]) => name));
    if (this.entry) found.add(this.entry);
    const taken = new Set(["assert", "require", "console", "Deno", "evalcell_from", ...Object.keys(this.kit().runner)]);
    return [...found].filter((name) => !taken.has(name) && (!(name in globalThis) || name === this.entry)).slice(0, 500);
  }

  /** The tests with their imports from the program and from test tools in place of what these would load. */
  source(): string {
    const imports = /(^[ \t]*|;[ \t]*)import\s+(type\s+)?(?:([^;'"]*?)\s*from\s*)?(['"])([^'"\n]+)\4[ \t]*(?:with\s*\{[^}]*\})?;?/gm;
    const text = this.text.replace(imports, (whole, space, type, what, _, name) => {
      const lines = "\n".repeat(whole.split("\n").length - 1);
      if (type || !what) return space + lines;
      const all = what.match(/\*\s*as\s+([\w$]+)/)?.[1];
      const named = what.match(/\{([\s\S]*)\}/)?.[1].replace(/\btype\s+[\w$]+\s*,?/g, "").replace(/\bas\b/g, ":");
      const first = what.match(/^\s*([\w$]+)/)?.[1];
      const from = `(await evalcell_from(${JSON.stringify(name)}))`;
      const parts = [first && `const ${first} = ${from}.default;`, all && `const ${all} = ${from};`, named && `const {${named.replace(/\n/g, " ")}} = ${from};`];
      return space + parts.filter(Boolean).join(" ") + lines;
    });
    const check = this.entry && /\bcheck\b/.test(text) ? "\n;try { globalThis.check = check; } catch {}" : "";
    return `${text}${check}\nexport {};\n`;
  }

  from(name: string, kit: any): any {
    if (/(^|:|\/)assert(\/strict)?$|@std\/assert|^chai$/.test(name)) return kit.assertModule;
    if (/^(node:test|bun:test|vitest|@jest\/globals|mocha)$|@std\/(testing|expect)/.test(name)) return kit.module;
    return name.startsWith(".") || name === this.module ? this.program : undefined;
  }

  kit() {
    const checked = (run: (...given: any[]) => unknown) => (...given: any[]) => {
      const unsure = () => given.some((one) => one === this.questions.unknown) || this.questions.missing;
      try {
        const found: any = run(...given);
        if (found instanceof Promise) return found.then(() => this.counted(), (error) => this.wrong(error, unsure()));
        this.counted();
      } catch (error) {
        this.wrong(error, unsure());
      }
    };
    const assert: any = checked((holds, message) => nodeAssert.ok(holds, message));
    for (const name of Object.keys(nodeAssert)) {
      const own = (nodeAssert as any)[name];
      assert[name] = typeof own === "function" && /^[a-z]/.test(name) && name !== "fail" ? checked(own) : own;
    }
    for (const [name, own] of [["assertEquals", "deepStrictEqual"], ["assertStrictEquals", "strictEqual"], ["assertNotEquals", "notDeepStrictEqual"], ["assertThrows", "throws"], ["assertRejects", "rejects"]]) assert[name] = assert[own];
    assert.isTrue = checked((value) => nodeAssert.strictEqual(value, true));
    assert.isFalse = checked((value) => nodeAssert.strictEqual(value, false));
    const named = (group: string[], name: string) => [...group, name].join(" > ");
    const test: any = (name: string, ...more: any[]) => this.tests.push({ name: named(this.groups, name), run: more[more.length - 1] });
    test.skip = test.todo = () => undefined;
    test.only = test;
    test.each = (rows: any[]) => (name: string, run: any) => rows.forEach((row, at) => test(`${name} ${at + 1}`, () => run(...(Array.isArray(row) ? row : [row]))));
    const describe: any = (name: string, run: Step) => {
      this.groups.push(name);
      run();
      this.groups.pop();
    };
    const beforeEach = (step: Step) => this.before.push(step), afterEach = (step: Step) => this.after.push(step);
    const beforeAll = (step: Step) => step(), afterAll = () => undefined;
    const expect = (value: any) => expectation(value, checked, this.questions, false);
    const runner = { test, it: test, describe, suite: describe, beforeEach, afterEach, beforeAll, afterAll, before: beforeAll, after: afterAll, expect };
    return {
      assert,
      runner,
      assertModule: Object.assign((...given: any[]) => assert(...given), assert, { default: assert, strict: assert, assert, expect }),
      module: Object.assign((...given: any[]) => (test as any)(...given), runner, { default: test, assert }),
    };
  }

  counted() {
    if (!this.inTest && !this.tests.length) this.verdict.hold();
  }

  /** What fails ends its test; without tests each assert is a case, and the next one counts as well. */
  wrong(error: unknown, unsure: boolean) {
    if (error instanceof Stop) throw error;
    if (unsure) return;
    if (this.inTest) throw error;
    this.verdict.fail(this.place(error), error);
  }

  place(error: any): string {
    const line = Number(String(error?.stack ?? "").match(/data:application\/typescript[^\n]*:(\d+):\d+/)?.[1]);
    return line ? `line ${line}: ${(this.text.split("\n")[line - 1] ?? "").trim().replace(/;+$/, "").slice(0, 200)}` : "the tests threw";
  }
}

/** Of an error; Deno shows the whole text of what it cannot read. */
function firstLine(error: any): string {
  return String(error?.message ?? error).split("\n")[0].replace(/data:application\/typescript[^:]*/g, "").slice(0, 300);
}

/** What Jest's and Vitest's `expect(value)` gives, of what unit tests use. */
function expectation(value: any, checked: (run: (...given: any[]) => unknown) => any, questions: Questions, not: boolean): any {
  const is = (holds: boolean, words: string) => {
    if (holds === not) throw new nodeAssert.AssertionError({ message: `expected ${short(value)} ${not ? "not " : ""}${words}` });
  };
  const equal = (other: any, strict: boolean) => {
    try {
      if (strict) nodeAssert.deepStrictEqual(value, other);
      else nodeAssert.deepStrictEqual(defined(value), defined(other));
      return true;
    } catch {
      return false;
    }
  };
  const thrown = (wanted: any) => {
    let error: any, threw = false;
    try {
      value();
    } catch (e) {
      if (e instanceof Stop) throw e;
      [error, threw] = [e, true];
    }
    const message = String(error?.message ?? error);
    const fits = wanted === undefined || (typeof wanted === "string" ? message.includes(wanted) : wanted instanceof RegExp ? wanted.test(message) : typeof wanted === "function" ? error instanceof wanted : message === wanted.message);
    is(threw && fits, `to throw ${short(wanted)}`);
  };
  const tries: Record<string, (...given: any[]) => unknown> = {
    toBe: (other) => is(Object.is(value, other), `to be ${short(other)}`),
    toEqual: (other) => is(equal(other, false), `to equal ${short(other)}`),
    toStrictEqual: (other) => is(equal(other, true), `to equal ${short(other)}`),
    toBeCloseTo: (other, digits = 2) => is(Math.abs(value - other) < 10 ** -digits / 2, `to be close to ${other}`),
    toBeNull: () => is(value === null, "to be null"),
    toBeUndefined: () => is(value === undefined, "to be undefined"),
    toBeDefined: () => is(value !== undefined, "to be defined"),
    toBeNaN: () => is(Number.isNaN(value), "to be NaN"),
    toBeTruthy: () => is(Boolean(value), "to be truthy"),
    toBeFalsy: () => is(!value, "to be falsy"),
    toBeGreaterThan: (other) => is(value > other, `to be greater than ${other}`),
    toBeGreaterThanOrEqual: (other) => is(value >= other, `to be at least ${other}`),
    toBeLessThan: (other) => is(value < other, `to be less than ${other}`),
    toBeLessThanOrEqual: (other) => is(value <= other, `to be at most ${other}`),
    toContain: (other) => is(value.includes(other), `to contain ${short(other)}`),
    toHaveLength: (other) => is(value.length === other, `to have the length ${other}`),
    toMatch: (other) => is(typeof other === "string" ? value.includes(other) : other.test(value), `to match ${short(other)}`),
    toBeInstanceOf: (other) => is(value instanceof other, `to be a ${other.name}`),
    toThrow: thrown,
    toThrowError: thrown,
  };
  const found: any = {};
  for (const [name, run] of Object.entries(tries)) {
    found[name] = checked((...given) => {
      if (value === questions.unknown) throw new Error("not known yet");
      return run(...given);
    });
  }
  const waited = (take: (promise: Promise<any>) => Promise<any>) => new Proxy({}, {
    get: (_, name: string) => async (...given: any[]) => {
      const of = take(Promise.resolve(value));
      const next = await of;
      return expectation(next, checked, questions, not)[name](...given);
    },
  });
  return Object.defineProperties(found, {
    not: { get: () => expectation(value, checked, questions, !not) },
    resolves: { get: () => waited((promise) => promise) },
    rejects: { get: () => waited((promise) => promise.then(() => () => undefined, (error) => () => { throw error; })) },
  });
}

/** The value without what is undefined in its objects. */
function defined(value: any): any {
  if (Array.isArray(value)) return value.map(defined);
  if (value === null || typeof value !== "object" || Object.getPrototypeOf(value) !== Object.prototype) return value;
  if (Object.keys(value).some((key) => key.startsWith("evalcell "))) return value;
  return Object.fromEntries(Object.entries(value).filter(([, one]) => one !== undefined).map(([key, one]) => [key, defined(one)]));
}
