import type { Verdict } from "./verdict.ts";

/** A `describe`, or the file. */
export interface Block {
  name: string;
  above: Block | null;
  skipped: boolean;
  hooks: Record<"beforeAll" | "beforeEach" | "afterEach" | "afterAll", any[]>;
  parts: (Block | Test)[];
}

/** A test; `context`: it is given what belongs to it, and not a `done`. */
export interface Test {
  name: string;
  step: any;
  given: unknown[];
  context: boolean;
  skipped: boolean;
}

/** The functions by which a file says what its tests are. */
export class TestLibrary {
  readonly root: Block = block("", null, false);
  private at: Block = this.root;
  context = false;
  private readonly verdict: Verdict;
  private readonly expect: any;

  constructor(verdict: Verdict, expect: any) {
    this.verdict = verdict;
    this.expect = expect;
  }

  /** `Deno.test`. */
  denoTest(): any {
    const test = (first: any, second?: any, third?: any) => {
      const about = typeof first === "object" ? first : {};
      const step = [third, second, first, about.fn].find((one) => typeof one === "function");
      const name = typeof first === "string" ? first : about.name ?? step.name;
      this.at.parts.push({ name, step, given: [], context: true, skipped: !!(about.ignore ?? second?.ignore) });
    };
    return Object.assign(test, { ignore: () => {} });
  }

  /** What a test library has, by name. */
  library(): Record<string, any> {
    const test = this.declared((name, step, given, skipped) => {
      this.at.parts.push({ name, step, given, context: this.context && !given.length, skipped });
    });
    const describe = this.declared((name, step, given, skipped) => {
      const outer = this.at;
      this.at = block(name, outer, skipped);
      outer.parts.push(this.at);
      try {
        const done = step(...given);
        if (done instanceof Promise) this.verdict.questions.refuse(`${name}: a \`describe\` cannot wait`);
      } finally {
        this.at = outer;
      }
    });
    const hook = (kind: keyof Block["hooks"]) => (step: any) => {
      if (step.length && !this.context) {
        this.verdict.questions.refuse(`${kind} takes a callback such as \`done\`, which code-tests does not have`);
      }
      this.at.hooks[kind].push(step);
    };
    const hooks = {
      beforeAll: hook("beforeAll"),
      beforeEach: hook("beforeEach"),
      afterEach: hook("afterEach"),
      afterAll: hook("afterAll"),
      before: hook("beforeAll"),
      after: hook("afterAll"),
    };
    return {
      test,
      it: test,
      describe,
      suite: describe,
      xit: test.skip,
      xtest: test.skip,
      xdescribe: describe.skip,
      expect: this.expect,
      ...hooks,
    };
  }

  /** `test` or `describe`, with `each`, `skip` and the like. */
  private declared(add: (name: string, step: any, given: unknown[], skipped: boolean) => void): any {
    const made = (skipped: boolean): any => {
      const one = (name: any, ...rest: any[]) =>
        add(String(name?.name ?? name), rest.find((part) => typeof part === "function") ?? (() => {}), [], skipped);
      const each = (rows: any, ...values: unknown[]) => (name: string, step: any) => {
        for (const row of table(rows, values)) {
          const given = Array.isArray(row) ? row : [row];
          add(named(name, given), step, given, skipped);
        }
      };
      return Object.assign(one, { each });
    };
    const skip = made(true);
    const all = Object.assign(made(false), { skip, todo: () => {}, concurrent: made(false), sequential: made(false) });
    Object.assign(all, { skipIf: (no: unknown) => no ? skip : all, runIf: (yes: unknown) => yes ? all : skip });
    return this.verdict.refusing("test.", all);
  }
}

function block(name: string, above: Block | null, skipped: boolean): Block {
  return { name, above, skipped, hooks: { beforeAll: [], beforeEach: [], afterEach: [], afterAll: [] }, parts: [] };
}

/** Whether something in it runs. */
export function runs(at: Block): boolean {
  return !at.skipped && (at.parts.some((part) => "parts" in part ? runs(part) : !part.skipped) || !at.above);
}

/** The rows of `each`: an array, or a template with a heading. */
function table(rows: any, values: unknown[]): unknown[] {
  if (!("raw" in rows)) return [...rows];
  const names: string[] = rows[0].split("|").map((one: string) => one.trim()).filter((one: string) => one);
  return Array.from(
    { length: values.length / names.length },
    (_, at) => Object.fromEntries(names.map((name, place) => [name, values[at * names.length + place]])),
  );
}

function named(name: string, given: unknown[]): string {
  let at = 0;
  return String(name).replace(
    /%[sdifjop]/g,
    () => String(typeof given[at] === "object" ? JSON.stringify(given[at++]) : given[at++]),
  );
}
