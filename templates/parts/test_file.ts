import { Assertions } from "./assertions.ts";
import { Equality } from "./equality.ts";
import { evaluated, isTyped, lineOf, required, withoutExports, withoutImports } from "./javascript_text.ts";
import { Matchers } from "./matchers.ts";
import { behind } from "./program_values.ts";
import { type Questions, Stop } from "./stand_ins.ts";
import { type Block, runs, type Test, TestLibrary } from "./test_library.ts";
import { CONTEXT, MOCKS, PROGRAM, TestModules } from "./test_modules.ts";
import { used } from "./test_realm.ts";
import { Timers } from "./test_timers.ts";
import { Failure, Verdict } from "./verdict.ts";

const WORD = /[A-Za-z_$][\w$]*/g;

/**
 * Tests as a text: assertions, a function `check`, or the tests of a test library.
 *
 * They run against stand-ins of the program. Any name that the text uses and does not define is the program's.
 */
export class TestFile {
  private readonly text: string;
  private readonly bound;
  private readonly tests: TestLibrary;
  private readonly verdict: Verdict;
  private readonly assertions: Assertions;
  private readonly expect: any;
  private readonly replaced = new Map<string, PropertyDescriptor | undefined>();
  private readonly timers: Timers;
  private readonly module: string;
  private readonly entry: string;
  private readonly questions: Questions;

  constructor(source: string, module: string, entry: string, questions: Questions, every: boolean) {
    this.module = module;
    this.entry = entry;
    this.questions = questions;
    const { text, bound } = withoutImports(source);
    this.text = withoutExports(text).text;
    this.bound = bound;
    this.verdict = new Verdict(questions, every, (error) => this.placed(error));
    const done = () => this.verdict.reached + questions.asked.length;
    this.timers = new Timers((error) => this.failing(error), done);
    const equality = new Equality(questions);
    this.assertions = new Assertions(this.verdict, equality);
    this.expect = new Matchers(this.verdict, equality).expect;
    this.tests = new TestLibrary(this.verdict, this.expect);
  }

  /** Runs them as far as the answers are known, and further with made-up ones. */
  async run(): Promise<Verdict> {
    const failed = (event: any) => {
      event.preventDefault();
      this.failing(event.reason ?? event.error);
    };
    addEventListener("unhandledrejection", failed);
    addEventListener("error", failed);
    try {
      await this.install();
      const lookup = await this.compiled();
      if (lookup) await this.all(lookup);
    } catch (error) {
      if (!(error instanceof Stop)) throw error;
    } finally {
      this.timers.end();
      await this.timers.turn(); // for what waits for a promise, which is the next row's business as little
      removeEventListener("unhandledrejection", failed);
      removeEventListener("error", failed);
      this.restore();
    }
    return this.verdict;
  }

  private async compiled(): Promise<((name: string) => unknown) | null> {
    try {
      return await evaluated(this.text, isTyped(this.text));
    } catch (error) {
      if (error instanceof SyntaxError && !this.questions.asked.length) {
        this.questions.refuse(`the tests are neither JavaScript nor TypeScript: ${error.message.split("\n")[0]}`);
      }
      this.failing(error);
      return null;
    }
  }

  private async all(lookup: (name: string) => unknown): Promise<void> {
    try {
      let check: any;
      try {
        check = /\bcheck\b/.test(this.text) ? lookup("check") : undefined;
      } catch {
        // No function of the tests.
      }
      if (this.entry && typeof check === "function" && !behind(check)) await check(this.questions.byName(this.entry));
      await this.settle();
    } catch (error) {
      this.failing(error);
    }
    await this.runBlock(this.tests.root, []);
    const { verdict, questions } = this;
    if (verdict.held || verdict.failed || this.tests.root.parts.length) return;
    if (!questions.missing && questions.asked.length) verdict.held = 1; // code that would have thrown
  }

  /** What was thrown outside of a test, or by something that nobody waits for. */
  private failing(error: unknown): void {
    if (this.questions.missing || error instanceof Stop) return;
    this.verdict.cut = true;
    if (this.verdict.test) this.verdict.test.failure ??= error;
    else this.verdict.fail(error);
  }

  /** Waits for what goes on: assertions about promises, and timers. */
  private async settle(): Promise<void> {
    for (let quiet = 0; quiet < 2; quiet = this.timers.pending ? 0 : quiet + 1) {
      for (const one of this.verdict.waiting.splice(0)) await one;
      await this.timers.turn();
    }
  }

  private async runBlock(at: Block, above: Block[]): Promise<void> {
    const blocks = [...above, at];
    if (!runs(at)) return;
    for (const step of at.hooks.beforeAll) await this.hook(step, at);
    for (const part of at.parts) {
      if ("parts" in part) await this.runBlock(part, blocks);
      else if (!part.skipped) await this.runTest(part, blocks);
    }
    for (const step of at.hooks.afterAll) await this.hook(step, at);
  }

  private async hook(step: any, at: Block): Promise<void> {
    try {
      await step();
    } catch (error) {
      if (error instanceof Stop) return;
      this.failing(
        new Failure(
          `a hook of ${at.name || "the file"} threw ${error instanceof Error ? error.message : String(error)}`,
        ),
      );
    }
  }

  private async runTest(test: Test, blocks: Block[]): Promise<void> {
    const { verdict, questions } = this;
    const name = [...blocks.map((one) => one.name), test.name].filter((part) => part).join(" > ");
    if (!test.context && test.step.length > test.given.length) {
      questions.refuse(`the test ${name} takes a callback such as \`done\`, which code-tests does not have`);
    }
    const running = verdict.test = { name, assertions: 0, ends: [] } as NonNullable<Verdict["test"]>;
    try {
      for (const one of blocks) for (const step of one.hooks.beforeEach) await step();
      await test.step(...test.given, ...(test.context ? [this.given()] : []));
      await this.settle();
    } catch (error) {
      if (!(error instanceof Stop) || !questions.missing) running.failure ??= error;
    }
    try {
      for (const one of [...blocks].reverse()) for (const step of one.hooks.afterEach) await step();
    } catch (error) {
      running.failure ??= error;
    }
    for (const end of running.ends) {
      const why = end(running.assertions);
      if (why) running.failure ??= new Failure(why);
    }
    if (questions.spoilt || questions.refused) throw new Stop();
    if (questions.missing) verdict.test = null;
    else if ("failure" in running) verdict.fail(running.failure);
    else verdict.held++;
    verdict.test = null;
  }

  /** What Deno, Node and Vitest give a test. */
  private given(): any {
    const step = async (name: any, step: any) => {
      const body = typeof name === "function" ? name : step ?? name.fn;
      await body(this.given());
      return true;
    };
    return this.verdict.refusing("a test's ", {
      step,
      test: step,
      expect: this.expect,
      name: "",
      diagnostic: () => {},
    });
  }

  private placed(error: unknown): string {
    const line = error instanceof Error ? lineOf(error.stack, this.text) : 0;
    return line ? `line ${line}: ${this.text.split("\n")[line - 1].trim().replace(/;$/, "").slice(0, 200)}` : "";
  }

  /** The names that the tests find: a test library's, those of what they import, and the program's. */
  private async install(): Promise<void> {
    const words = new Set(this.text.match(WORD));
    used(words);
    const modules = new Map<string, any>();
    const names = [...this.bound.map((one) => one.module), ...required(this.text)];
    const imports = new TestModules(this.module, this.verdict, this.assertions, this.tests, this.timers);
    for (const name of names) modules.set(name, await imports.imported(name));
    this.tests.context = names.some((name) => CONTEXT.test(name));
    const own: Record<string, unknown> = {
      ...this.tests.library(),
      ...this.assertions.byName(),
      assert: this.assertions.node(false),
    };
    for (const name of MOCKS) own[name] = this.verdict.refusing(`${name}.`, function () {});
    own.require = (name: string) =>
      modules.get(name) === PROGRAM
        ? this.whole()
        : modules.get(name) ?? this.questions.refuse(`the tests require ${name}, which code-tests does not have`);
    own.module = { exports: {} };
    own.exports = (own.module as any).exports;
    own.console = {
      ...console,
      assert: (value: unknown, message: unknown) => this.assertions.console(value, message),
      log() {},
      info() {},
      error() {},
      warn() {},
      debug() {},
    };
    const exit = (code: unknown = 0) => {
      if (code !== 0) this.failing(new Failure(`the tests left with ${code}`));
      throw new Stop();
    };
    own.Deno = { ...Deno, test: this.tests.denoTest(), exit };
    const turn = (step: any, ...given: unknown[]) => queueMicrotask(() => step(...given));
    own.process = this.verdict.refusing("process.", {
      exit,
      env: {},
      argv: ["node", "tests"],
      platform: "linux",
      nextTick: turn,
      on() {},
      stdout: { write() {} },
      stderr: { write() {} },
    });
    own.global = globalThis;
    if (/\bBuffer\b/.test(this.text)) own.Buffer = (await import("node:buffer")).Buffer;
    Object.assign(own, this.timers.globals);
    for (const { name, module, of } of this.bound) {
      const found = modules.get(module);
      if (found !== PROGRAM) own[name] = of === "*" ? found : of === "default" ? found.default ?? found : found[of];
    }
    for (const name of Object.keys(own)) this.put(name, { value: own[name], writable: true });
    for (const { name, module, of } of this.bound) {
      if (modules.get(module) === PROGRAM) this.ofProgram(name, of === "default" ? `default:${name}` : of);
    }
    // What imports the program by name has no other name of it.
    const named = [...modules.values()].includes(PROGRAM);
    for (const name of named ? [] : words) {
      if (!(name in globalThis)) this.ofProgram(name, name);
    }
    if (this.entry && /^[A-Za-z_$][\w$]*$/.test(this.entry)) this.ofProgram(this.entry, this.entry);
  }

  private ofProgram(name: string, of: string): void {
    this.put(name, {
      get: () => of === "*" ? this.whole() : this.questions.byName(of),
      set: (value: unknown) => this.put(name, { value, writable: true }),
    });
  }

  /** The program as a module, which may be a function itself. */
  private whole(): any {
    const { questions } = this;
    const get = (_target: object, name: string | symbol) =>
      typeof name === "symbol" || name === "then" ? undefined : questions.byName(name);
    const apply = (_target: object, _self: unknown, given: unknown[]) => questions.byName("default")(...given);
    const construct = (_target: object, given: unknown[]) =>
      Reflect.construct(questions.byName("default"), given) as object;
    return new Proxy(function () {}, { get, apply, construct });
  }

  private put(name: string, what: PropertyDescriptor): void {
    if (!this.replaced.has(name)) this.replaced.set(name, Object.getOwnPropertyDescriptor(globalThis, name));
    Object.defineProperty(globalThis, name, { ...what, configurable: true });
  }

  private restore(): void {
    for (const [name, before] of this.replaced) {
      if (before) Object.defineProperty(globalThis, name, before);
      else delete (globalThis as any)[name];
    }
  }
}
