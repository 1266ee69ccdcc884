import { Equality, isSame, Pattern } from "./equality.ts";
import { behind, shown } from "./program_values.ts";
import { Failure, type Verdict } from "./verdict.ts";

type Matcher = (value: any, ...given: any[]) => boolean;

/** `expect` with its usual matchers, of Jest, Vitest and their like. One that is not here is refused by name. */
export class Matchers {
  private readonly known: Record<string, Matcher>;
  private readonly verdict: Verdict;
  private readonly equality: Equality;

  constructor(verdict: Verdict, equality: Equality) {
    this.verdict = verdict;
    this.equality = equality;
    const { equality: same } = this;
    const number = (one: any) => typeof one === "number" || typeof one === "bigint";
    const length = (value: any) =>
      typeof value === "string" || Array.isArray(value) || ArrayBuffer.isView(value)
        ? (value as any).length
        : value?.length;
    const known: Record<string, Matcher> = {
      toBe: isSame,
      toEqual: (value, other) => same.equal(value, other, "data"),
      toStrictEqual: (value, other) => same.equal(value, other, "strict"),
      toBeTruthy: (value) => !!value,
      toBeFalsy: (value) => !value,
      toBeNull: (value) => value === null,
      toBeUndefined: (value) => value === undefined,
      toBeDefined: (value) => value !== undefined,
      toBeNullable: (value) => value === null || value === undefined,
      toBeNaN: (value) => Number.isNaN(value),
      toBeCloseTo: (value, other, digits = 2) => typeof value === "number" && close(value, other, digits),
      toBeGreaterThan: (value, other) => number(value) && value > other,
      toBeGreaterThanOrEqual: (value, other) => number(value) && value >= other,
      toBeLessThan: (value, other) => number(value) && value < other,
      toBeLessThanOrEqual: (value, other) => number(value) && value <= other,
      toContain: (value, item) => same.contains(this.listed(value), item),
      toContainEqual: (value, item) =>
        typeof value !== "string" &&
        same.contains(this.listed(value), item, (one, other) => same.equal(one, other, "data")),
      toHaveLength: (value, size) => typeof size === "number" && length(value) === size,
      toHaveProperty: (value, path, ...other) => this.hasProperty(value, path, other),
      toMatch: (value, part) =>
        typeof value === "string" && (part instanceof RegExp ? part.test(value) : value.includes(part)),
      toMatchObject: (value, part) => same.matches(value, part),
      toBeInstanceOf: (value, of) => same.isInstance(value, of),
      toBeTypeOf: (value, name) => typeof value === name,
      toBeOneOf: (value, all) => Array.from(all).some((one) => same.equal(value, one, "data")),
      toSatisfy: (value, holds) => !!holds(value),
      toThrow: (found: { error: unknown } | null, expected) => found !== null && same.isThrown(found.error, expected),
    };
    this.known = { ...known, toThrowError: known.toThrow };
  }

  /** The function `expect`, with what is of its own. */
  get expect(): any {
    const { equality: same, verdict } = this;
    const any = (of: any) => {
      const type = new Map<unknown, string>([
        [String, "string"],
        [Number, "number"],
        [Boolean, "boolean"],
        [BigInt, "bigint"],
        [Function, "function"],
        [Symbol, "symbol"],
      ]).get(of);
      return new Pattern((value) => type ? typeof value === type : same.isInstance(value, of));
    };
    const all = (list: unknown[]) => (value: any) =>
      Array.isArray(value) &&
      list.every((one) => same.contains(value, one, (left, right) => same.equal(left, right, "data")));
    const patterns = (wanted: boolean) => {
      const made = (fits: (value: any) => boolean) => new Pattern((value) => fits(value) === wanted);
      return {
        arrayContaining: (list: unknown[]) => made(all(list)),
        objectContaining: (part: any) =>
          made((value) => {
            const held = same.plainOf(value);
            return held !== null && typeof held === "object" &&
              Object.keys(part).every((key) => key in held && same.equal(held[key], part[key], "data"));
          }),
        stringContaining: (part: string) => made((value) => typeof value === "string" && value.includes(part)),
        stringMatching: (part: RegExp | string) =>
          made((value) => typeof value === "string" && new RegExp(part).test(value)),
        closeTo: (other: number, digits = 2) =>
          made((value) => typeof value === "number" && close(value, other, digits)),
      };
    };
    const own = {
      ...patterns(true),
      any,
      anything: () => new Pattern((value) => value !== null && value !== undefined),
      not: verdict.refusing("expect.not.", patterns(false)),
      assertions: (count: number) =>
        void verdict.test?.ends.push((made) => made === count ? "" : `${made} assertions were made, not ${count}`),
      hasAssertions: () => void verdict.test?.ends.push((made) => made ? "" : "no assertion was made"),
      fail: (message?: string) => verdict.check(() => false, () => message ?? "expect.fail"),
      unreachable: (message?: string) => verdict.check(() => false, () => message ?? "expect.unreachable"),
    };
    const expect: any = (value: unknown) => this.about(value, false);
    return verdict.refusing("expect.", Object.assign(expect, own, { soft: expect }));
  }

  /** What may be said of a value. */
  private about(value: unknown, not: boolean): any {
    const made: any = {};
    for (const [name, matcher] of Object.entries(this.known)) {
      made[name] = (...given: unknown[]) => {
        const promised = value instanceof Promise && !(given[0] === Promise && name === "toBeInstanceOf");
        const found = /^toThrow/.test(name) ? this.verdict.thrownBy(value) : value;
        this.verdict.check(() => {
          if (promised) throw new Failure("a promise where a value is expected: it is not awaited");
          if (/^toThrow/.test(name) && typeof value !== "function") throw new Failure("toThrow needs a function");
          return matcher(found, ...given) !== not;
        }, () => said(name, not, found, given));
      };
    }
    if (!not) made.not = this.about(value, true);
    Object.defineProperty(made, "resolves", { get: () => this.settled(value, not, true) });
    Object.defineProperty(made, "rejects", { get: () => this.settled(value, not, false) });
    return this.verdict.refusing("the matcher ", made);
  }

  /** The matchers of what a promise comes to; each gives a promise, which the test waits for. */
  private settled(value: any, not: boolean, well: boolean, inner = not): any {
    const made: any = {};
    for (const name of Object.keys(this.known)) {
      made[name] = (...given: unknown[]) =>
        this.verdict.later(async () => {
          let kept: unknown, rejected = false;
          try {
            kept = await (typeof value === "function" && !behind(value)?.unknown ? value() : value);
          } catch (error) {
            [kept, rejected] = [error, true];
          }
          this.verdict.check(() => {
            if (rejected === well) {
              throw new Failure(
                rejected
                  ? `the promise was rejected with ${shown(kept)}`
                  : `the promise was not rejected: it came to ${shown(kept)}`,
              );
            }
            const found = /^toThrow/.test(name) ? { error: kept } : kept;
            return this.known[name](found, ...given) !== inner;
          }, () => said(name, inner, kept, given));
        });
    }
    if (!inner) Object.defineProperty(made, "not", { get: () => this.settled(value, not, well, true) });
    return this.verdict.refusing("the matcher ", made);
  }

  /** An object that yields values, as an array. */
  private listed(value: any): unknown {
    const known = behind(value);
    return known?.sign && known.origin !== "chosen" && !known.sign.callable ? [...value] : value;
  }

  private hasProperty(value: any, path: string | (string | number)[], other: unknown[]): boolean {
    const keys = Array.isArray(path) ? path : path.split(/[.[\]]/).filter((key) => key !== "");
    let at = this.equality.plainOf(value);
    for (const key of keys) {
      if (at === null || at === undefined || !(key in Object(at))) return false;
      at = this.equality.plainOf(at[key]);
    }
    return !other.length || this.equality.equal(at, other[0], "data");
  }
}

function close(value: number, other: number, digits: number): boolean {
  return Object.is(value, other) || value === other || Math.abs(value - other) < 10 ** -digits / 2;
}

function said(name: string, not: boolean, value: any, given: unknown[]): string {
  const what = /^toThrow/.test(name) ? value ? `what threw ${shown(value.error)}` : "what threw nothing" : shown(value);
  return `expected ${what}${not ? " not" : ""} ${name}(${given.map(shown).join(", ")})`;
}
