import type { Assertions } from "./assertions.ts";
import type { TestLibrary } from "./test_library.ts";
import { used } from "./test_realm.ts";
import type { Timers } from "./test_timers.ts";
import type { Verdict } from "./verdict.ts";

const LIBRARIES =
  /^(@jest\/globals|vitest|bun:test|node:test|test|jsr:@std\/(testing\/bdd|expect)(@.*)?|@std\/(testing\/bdd|expect)|mocha)$/;
/** Those that give a test what belongs to it, and not a `done`. */
export const CONTEXT = /^(vitest|node:test|test)$/;
const DENO_ASSERT =
  /^((jsr:)?@std\/assert|https:\/\/deno\.land\/(x\/)?std(@[^/]*)?\/(assert\/(mod|assert_\w+)|testing\/asserts)\.ts)/;
/** What makes mocks, or is of a browser: refused by name. */
export const MOCKS = ["jest", "vi", "vitest", "sinon", "chai", "QUnit", "cy", "document", "window"];
const OF_NODE = ["buffer", "events", "path", "url", "util"];

/** Stands for the program, where it is imported. */
export const PROGRAM = Object.freeze({});

/** The modules that tests may import; `program` is a name of the program, as any relative path is. */
export class TestModules {
  private readonly program: string;
  private readonly verdict: Verdict;
  private readonly assertions: Assertions;
  private readonly tests: TestLibrary;
  private readonly timers: Timers;

  constructor(program: string, verdict: Verdict, assertions: Assertions, tests: TestLibrary, timers: Timers) {
    this.program = program;
    this.verdict = verdict;
    this.assertions = assertions;
    this.tests = tests;
    this.timers = timers;
  }

  async imported(name: string): Promise<any> {
    if (/^\.{1,2}\//.test(name) || name === this.program) return PROGRAM;
    const plain = name.replace(/^node:/, "");
    if (plain === "timers") return this.timers.globals;
    if (plain === "timers/promises") return this.timers.promises;
    if (plain === "assert") return this.assertions.node(false);
    if (plain === "assert/strict") return this.assertions.node(true);
    if (DENO_ASSERT.test(name)) return this.assertions.deno();
    if (LIBRARIES.test(name)) {
      const mocks = Object.fromEntries(["vi", "jest"].map((one) => [one, this.verdict.refusing(`${one}.`, {})]));
      const library = this.tests.library();
      return this.verdict.refusing(`${name}'s `, { ...library, ...mocks, default: library.test });
    }
    if (OF_NODE.includes(plain)) {
      used([], true);
      return (await import(`node:${plain}`)).default;
    }
    this.verdict.questions.refuse(`the tests import ${name}, which code-tests does not have`);
  }
}
