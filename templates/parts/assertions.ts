import { Equality, isSame, type Mode } from "./equality.ts";
import { shown } from "./program_values.ts";
import { Failure, type Verdict } from "./verdict.ts";

/** What is asserted by a function: Node's `assert`, and that of Deno's library. */
export class Assertions {
  private readonly verdict: Verdict;
  private readonly equality: Equality;

  constructor(verdict: Verdict, equality: Equality) {
    this.verdict = verdict;
    this.equality = equality;
  }

  /** `node:assert`; `strict` as `node:assert/strict`. */
  node(strict: boolean): any {
    const { verdict, equality } = this;
    const say = (message: unknown, why: string) =>
      message instanceof Error ? message.message : typeof message === "string" ? message : why;
    const truthy = (value?: unknown, message?: unknown) =>
      verdict.check(() => !!this.value(value), () => say(message, `${shown(value)} is not true`));
    const pair =
      (same: (one: any, other: any) => boolean, word: string, wanted = true) =>
      (actual: unknown, expected: unknown, message?: unknown) =>
        verdict.check(
          () => same(this.value(actual), this.value(expected)) === wanted,
          () => say(message, `expected ${word}${shown(expected)}, not ${shown(actual)}`),
        );
    const deep = (mode: Mode) => (one: unknown, other: unknown) => equality.equal(one, other, mode);
    const plainly = (one: any, other: any) =>
      isSame(one, other) || one == other || Number.isNaN(one) && Number.isNaN(other);
    const fits = (text: unknown, pattern: RegExp) => typeof text === "string" && pattern.test(text);
    const own = {
      ok: truthy,
      equal: pair(strict ? isSame : plainly, ""),
      notEqual: pair(strict ? isSame : plainly, "anything but ", false),
      strictEqual: pair(isSame, ""),
      notStrictEqual: pair(isSame, "anything but ", false),
      deepEqual: pair(deep(strict ? "strict" : "loose"), ""),
      notDeepEqual: pair(deep(strict ? "strict" : "loose"), "anything but ", false),
      deepStrictEqual: pair(deep("strict"), ""),
      notDeepStrictEqual: pair(deep("strict"), "anything but ", false),
      match: pair(fits, "what fits "),
      doesNotMatch: pair(fits, "what does not fit ", false),
      fail: (message?: unknown) => verdict.check(() => false, () => say(message, "assert.fail")),
      ifError: (value: unknown) =>
        verdict.check(() => value === null || value === undefined, () => `${shown(value)} is an error`),
      throws: (step: unknown, expected?: any, message?: unknown) =>
        this.throws(verdict.thrownBy(step), validated(expected), say(message, "")),
      doesNotThrow: (step: unknown) => this.quiet(verdict.thrownBy(step)),
      rejects: (given: unknown, expected?: any, message?: unknown) =>
        verdict.later(async () => this.throws(await verdict.rejectionOf(given), validated(expected), say(message, ""))),
      doesNotReject: (given: unknown) => verdict.later(async () => this.quiet(await verdict.rejectionOf(given))),
      AssertionError: Failure,
    };
    const assert: any = verdict.refusing(
      "assert.",
      Object.assign((value?: unknown, message?: unknown) => truthy(value, message), own),
    );
    Object.assign(own, { default: assert, assert, strict: strict ? assert : undefined });
    Object.assign(assert, { default: assert, assert, strict: strict ? assert : this.node(true) });
    return assert;
  }

  /** The functions of Deno's `@std/assert`. */
  deno(): any {
    return this.verdict.refusing("the assertion ", {
      ...this.byName(),
      fail: this.node(true).fail,
      equal: (one: any, other: any) => this.equality.equal(one, other, "data"),
    });
  }

  /** The same for tests that do not import them: no program may define them instead. */
  byName(): Record<string, any> {
    const { verdict, equality } = this;
    const node = this.node(true);
    const compared =
      (holds: (one: any, other: any) => boolean, word: string) => (actual: any, expected: any, message?: string) =>
        verdict.check(
          () => holds(this.value(actual), this.value(expected)),
          () => message ?? `expected ${shown(actual)} to ${word} ${shown(expected)}`,
        );
    const thrown = (found: { error: unknown } | null, of: any, text: any) => {
      this.throws(found, of === undefined || typeof of === "string" ? undefined : of, "");
      if (found && typeof text === "string") {
        verdict.check(
          () => equality.isThrown(found.error, text),
          () => `${shown(found.error)} does not say ${shown(text)}`,
        );
      }
    };
    const data = (one: any, other: any) => equality.equal(one, other, "strict");
    const loose = (one: any, other: any) => equality.equal(one, other, "data");
    return {
      assert: node.ok,
      assertFalse: (value: unknown, message?: string) =>
        verdict.check(() => !this.value(value), () => message ?? `${shown(value)} is true`),
      assertEquals: compared(data, "equal"),
      assertNotEquals: compared((one, other) => !loose(one, other), "differ from"),
      assertStrictEquals: node.strictEqual,
      assertNotStrictEquals: node.notStrictEqual,
      assertExists: (value: unknown, message?: string) =>
        verdict.check(() => this.value(value) != null, () => message ?? `${shown(value)} is nothing`),
      assertAlmostEquals: (actual: any, expected: any, tolerance = 1e-7) =>
        verdict.check(
          () => typeof actual === "number" && (Object.is(actual, expected) || Math.abs(actual - expected) <= tolerance),
          () => `expected about ${shown(expected)}, not ${shown(actual)}`,
        ),
      assertGreater: compared((one, other) => typeof one === typeof other && one > other, "be more than"),
      assertGreaterOrEqual: compared((one, other) => typeof one === typeof other && one >= other, "be at least"),
      assertLess: compared((one, other) => typeof one === typeof other && one < other, "be less than"),
      assertLessOrEqual: compared((one, other) => typeof one === typeof other && one <= other, "be at most"),
      assertStringIncludes: compared((one, other) => typeof one === "string" && one.includes(other), "have"),
      assertArrayIncludes: compared(
        (one, other) => Array.isArray(one) && Array.from(other).every((item) => equality.contains(one, item, data)),
        "have",
      ),
      assertMatch: node.match,
      assertNotMatch: node.doesNotMatch,
      assertObjectMatch: compared((one, other) => equality.matches(one, other), "match"),
      assertInstanceOf: compared((one, other) => equality.isInstance(one, other), "be of the class"),
      assertThrows: (step: unknown, of?: any, text?: any) => thrown(verdict.thrownBy(step), of, text),
      assertRejects: (step: unknown, of?: any, text?: any) =>
        verdict.later(async () => thrown(await verdict.rejectionOf(step), of, text)),
      AssertionError: Failure,
    };
  }

  /** `console.assert`, which throws nothing. */
  console(value: unknown, message: unknown): void {
    this.verdict.check(
      () => !!this.value(value),
      () => typeof message === "string" ? message : "the assertion is false",
      true,
    );
  }

  private throws(found: { error: unknown } | null, expected: unknown, message: string): void {
    const why = () => message || (found ? `threw ${shown(found.error)}, not what is expected` : "threw nothing");
    this.verdict.check(() => found !== null && this.equality.isThrown(found.error, expected), why);
  }

  private quiet(found: { error: unknown } | null): void {
    this.verdict.check(() => found === null, () => `threw ${shown(found?.error)}`);
  }

  /** A promise is true, and so is what was not waited for: no test may take it for a value. */
  private value(value: unknown): unknown {
    if (value instanceof Promise) throw new Failure("a promise where a value is expected: it is not awaited");
    return value;
  }
}

/** As Node: a text in second place is the message; a function that is no class says itself whether it fits. */
function validated(expected: unknown): unknown {
  return typeof expected === "string" ? undefined : expected;
}
