import { behind, isOf } from "./program_values.ts";
import { type Questions } from "./stand_ins.ts";

/** How values are compared: `loose` with `==`; `data` by what they hold, `pair` so too, and 0 is -0; `strict` by class, undefined and holes, too. */
export type Mode = "loose" | "data" | "pair" | "strict";

/** A value that stands for all that it says yes to: `expect.any(Number)`. */
export class Pattern {
  readonly fits: (value: any) => boolean;

  constructor(fits: (value: any) => boolean) {
    this.fits = fits;
  }
}

/** Deep equality of what a program returned and what its tests expect. Objects of the program's own are compared as data. */
export class Equality {
  private readonly questions: Questions;

  constructor(questions: Questions) {
    this.questions = questions;
  }

  equal(left: any, right: any, mode: Mode, above: [unknown, unknown][] = []): boolean {
    if (right instanceof Pattern) return right.fits(left);
    if (left instanceof Pattern) return left.fits(right);
    if (isSame(left, right)) return true;
    if (behind(left) || behind(right)) {
      const [one, other] = [this.questions.plain(left), this.questions.plain(right)];
      if (mode === "strict" && !isOfOneClass(left, right)) return false;
      return (one !== left || other !== right) && this.equal(one, other, mode, above);
    }
    if (mode === "pair" && left === right) return true;
    const objects = [left, right].filter((one) => one !== null && typeof one === "object").length;
    if (objects < 2) return mode === "loose" && objects === 0 && left == right;
    if (above.some(([one, other]) => one === left && other === right)) return true;
    return this.equalObjects(left, right, mode, [...above, [left, right]]);
  }

  private equalObjects(left: any, right: any, mode: Mode, above: [unknown, unknown][]): boolean {
    const same = (one: unknown, other: unknown) => this.equal(one, other, mode, above);
    if (isIterator(left) && isIterator(right)) return pairwise(left, right, same);
    const kind = (one: object) => Object.prototype.toString.call(one);
    if (kind(left) !== kind(right)) return false;
    if (mode === "strict" && Object.getPrototypeOf(left) !== Object.getPrototypeOf(right)) return false;
    if (left instanceof Date) return Object.is(left.getTime(), right.getTime());
    if (left instanceof RegExp) return String(left) === String(right);
    if (left instanceof Error && (left.message !== right.message || left.name !== right.name)) return false;
    const isData = mode === "data" || mode === "pair";
    if (left instanceof Error && isData) return true;
    if (left instanceof Set) return left.size === right.size && paired([...left], [...right], same);
    if (left instanceof Map) {
      return left.size === right.size &&
        paired([...left], [...right], (one: any, other: any) => same(one[0], other[0]) && same(one[1], other[1]));
    }
    if (Array.isArray(left) || ArrayBuffer.isView(left)) {
      if ((left as any).length !== right.length) return false;
    } else if (!(left instanceof Error) && kind(left) !== "[object Object]") return false; // such as promises: what they hold are no keys
    if (mode === "strict" && Array.isArray(left) && left.some((_, at) => (at in left) !== (at in right))) return false;
    const keys = (one: any) =>
      [...Object.keys(one), ...Object.getOwnPropertySymbols(one)].filter((key) =>
        !isData || one[key] !== undefined
      );
    const [own, others] = [keys(left), keys(right)];
    return own.length === others.length && own.every((key) => Object.hasOwn(right, key) && same(left[key], right[key]));
  }

  /** A value as data, if the program has an object of its own there. */
  plainOf(value: any): any {
    return this.questions.plain(value);
  }

  /** Whether an object has all that another has, at any depth. */
  matches(value: any, part: any): boolean {
    value = this.questions.plain(value);
    if (part === null || typeof part !== "object" || part instanceof Pattern) return this.equal(value, part, "data");
    if (value === null || typeof value !== "object") return false;
    if (Array.isArray(part)) {
      return Array.isArray(value) && value.length === part.length &&
        part.every((one, at) => this.matches(value[at], one));
    }
    if (Object.getPrototypeOf(part) !== Object.prototype) return this.equal(value, part, "data");
    return Object.keys(part).every((key) => Object.hasOwn(value, key) && this.matches(value[key], part[key]));
  }

  /** Whether a text, an array, a set or the like has this. Nothing but these is asked: it could say yes to all. */
  contains(value: any, item: unknown, same: (one: unknown, other: unknown) => boolean = isSame): boolean {
    if (typeof value === "string") return typeof item === "string" && value.includes(item);
    if (behind(value)) return false;
    if (Array.isArray(value) || ArrayBuffer.isView(value) || value instanceof Set) {
      return Array.from(value as any).some((one) => same(one, item));
    }
    return false;
  }

  /** Whether a value is of a class, by `instanceof`, or of one of the program's classes. */
  isInstance(value: any, of: any): boolean {
    const name = behind(of)?.name;
    if (name) return isOf(value, name);
    if (typeof of !== "function" || behind(of)) throw new TypeError("what it should be an instance of is no class");
    if (of === Object && typeof value === "object" && value !== null) return true;
    if (behind(value) && !behind(value)?.sign?.callable) return false;
    return value instanceof of;
  }

  /** Whether what was thrown is what `toThrow` and `assert.throws` expect: a class, a text in it, a pattern, an object. */
  isThrown(error: any, expected: any): boolean {
    if (expected === undefined) return true;
    const message = typeof error === "object" && error !== null && !behind(error)
      ? String(error.message)
      : String(error);
    if (typeof expected === "string") return message.includes(expected);
    if (expected instanceof RegExp) return expected.test(message);
    if (expected instanceof Pattern) return expected.fits(error);
    if (typeof expected === "function") {
      const isClass = behind(expected) || expected === Error || expected.prototype instanceof Error;
      return isClass ? this.isInstance(error, expected) : expected(error) === true;
    }
    if (expected instanceof Error) return message === expected.message;
    return Object.keys(expected).every((key) =>
      expected[key] instanceof RegExp
        ? expected[key].test(String(error?.[key]))
        : this.equal(error?.[key], expected[key], "data")
    );
  }
}

/** Whether both are one value, or stand for one object of the program. */
export function isSame(left: unknown, right: unknown): boolean {
  const [one, other] = [behind(left)?.sign, behind(right)?.sign];
  return Object.is(left, right) || !!one && !!other && one.own === other.own;
}

/** Whether both are objects of one class of the program. They may be equal then: it is the program's to say what they hold. */
function isOfOneClass(left: unknown, right: unknown): boolean {
  const [one, other] = [behind(left)?.sign, behind(right)?.sign];
  return !!one && !!other && !one.callable && JSON.stringify(one.bases) === JSON.stringify(other.bases);
}

const isIterator = (one: any): one is Iterator<unknown> => typeof one.next === "function" && Symbol.iterator in one;

/** Whether two iterators give the same items. It reads both as far as they do. */
function pairwise(
  left: Iterator<unknown>,
  right: Iterator<unknown>,
  same: (one: unknown, other: unknown) => boolean,
): boolean {
  for (;;) {
    const [one, other] = [left.next(), right.next()];
    if (one.done || other.done) return !!one.done && !!other.done;
    if (!same(one.value, other.value)) return false;
  }
}

function paired(left: unknown[], right: unknown[], same: (one: any, other: any) => boolean): boolean {
  const rest = [...right];
  return left.every((one) => {
    const at = rest.findIndex((other) => same(one, other));
    if (at >= 0) rest.splice(at, 1);
    return at >= 0;
  });
}
