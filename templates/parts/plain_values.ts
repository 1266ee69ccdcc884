/** What JSON has no word for, as an object with one key; `own` gives what stands for functions and objects with a class. */
export type Encoded = any;

const TYPED = ["Int8", "Uint8", "Uint8Clamped", "Int16", "Uint16", "Int32", "Uint32", "Float32", "Float64"];
const DEEPEST = 200;
const TOLD = ["name", "message", "stack"]; // of an exception, apart from what else it holds
const HIDDEN = ["cause", "errors"]; // what an exception holds without showing it
const HELD = 100; // things that an exception holds and that go over
const HELD_SIZE = 20_000; // characters of each, as JSON

export function encodedValue(value: unknown, own: (value: object) => Encoded, above: object[] = []): Encoded {
  switch (typeof value) {
    case "string":
      return value.isWellFormed() ? value : { string: Array.from(value, (_, at) => value.charCodeAt(at)) };
    case "number":
      return Number.isFinite(value) && !Object.is(value, -0)
        ? value
        : { number: Object.is(value, -0) ? "-0" : `${value}` };
    case "undefined":
      return { undefined: 0 };
    case "bigint":
      return { bigint: value.toString() };
    case "symbol":
      return { symbol: String(value.description) };
    case "function":
      return own(value);
    case "object":
      if (value === null) return null;
      if (above.length > DEEPEST) throw new RangeError("the value is nested too deeply");
      return above.includes(value) ? own(value) : encodedObject(value, own, [...above, value]);
  }
  return value;
}

function encodedObject(value: object, own: (value: object) => Encoded, above: object[]): Encoded {
  const each = (values: Iterable<unknown>) => Array.from(values, (one) => encodedValue(one, own, above));
  if (Array.isArray(value) && Object.getPrototypeOf(value) === Array.prototype) {
    return Array.from(value, (one, at) => at in value ? encodedValue(one, own, above) : { hole: 0 });
  }
  switch (Object.getPrototypeOf(value)) {
    case Map.prototype:
      return { map: Array.from(value as Map<unknown, unknown>, each) };
    case Set.prototype:
      return { set: each(value as Set<unknown>) };
    case Date.prototype: {
      const time = (value as Date).getTime();
      return { date: Number.isNaN(time) ? null : time };
    }
    case Object.prototype:
    case null:
      return isData(value)
        ? {
          object: Object.keys(value).map((
            key,
          ) => [encodedValue(key, own), encodedValue((value as any)[key], own, above)]),
        }
        : own(value);
  }
  if (value instanceof Error) return { error: encodedError(value, own, above) };
  const typed = ArrayBuffer.isView(value)
    ? TYPED.find((name) => value instanceof (globalThis as any)[`${name}Array`])
    : undefined;
  if (typed) return { typed, values: each(Array.from(value as unknown as number[])) };
  return own(value);
}

/** Whether an object has values only: no method, no accessor, no symbol. */
function isData(value: object): boolean {
  const all = Object.getOwnPropertyDescriptors(value) as Record<string, PropertyDescriptor>;
  if (Object.getOwnPropertySymbols(value).length) return false;
  return Object.values(all).every((one) => "value" in one && typeof one.value !== "function");
}

/** An exception: the names of its classes, its text, and what else it holds but functions. */
export function encodedError(error: Error, own: (value: object) => Encoded, above: object[]): Encoded {
  const classes: string[] = [];
  for (
    let at = error;
    at !== null && at !== Object.prototype as unknown && classes.length < 20;
    at = Object.getPrototypeOf(at)
  ) {
    const name = Object.getOwnPropertyDescriptor(at, "constructor")?.value?.name;
    if (typeof name === "string") classes.push(name.slice(0, 100));
  }
  const keys = [...Object.keys(error), ...HIDDEN.filter((key) => Object.hasOwn(error, key))];
  return {
    classes,
    name: String(error.name).slice(0, 100),
    text: String(error.message).slice(0, 1000),
    held: keys.slice(0, HELD).flatMap((key) => held(error, key, own, above)),
  };
}

/** What an exception holds by a key, as a list of one; none of what does not go over: no program is wrong by that. */
function held(error: any, key: string, own: (value: object) => Encoded, above: object[]): [string, Encoded][] {
  try {
    if (TOLD.includes(key) || key.length > HELD_SIZE) return [];
    const value = error[key];
    if (typeof value === "function" || value?.length > HELD_SIZE || value?.size > HELD_SIZE) return [];
    const found = encodedValue(value, own, above);
    return JSON.stringify(found).length > HELD_SIZE ? [] : [[key, found]];
  } catch {
    return []; // a getter that throws, or nested too deeply
  }
}

/**
 * The value, of this realm's own classes. Throws for JSON that `encodedValue` does not make, whoever made it.
 *
 * A plain object has no functions: methods in it would be called as those of a value. With `held` it is what an object
 * of the program's own holds, which may be functions.
 */
export function decodedValue(value: Encoded, own: (value: Encoded) => unknown, held = false): unknown {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) {
    const found: unknown[] = new Array(value.length);
    value.forEach((one, at) => {
      if (one === null || typeof one !== "object" || !("hole" in one)) found[at] = decodedValue(one, own);
    });
    return found;
  }
  const each = (values: Encoded[]) => values.map((one) => decodedValue(one, own));
  switch (Object.keys(value)[0]) {
    case "string":
      return String.fromCharCode(...value.string);
    case "number":
      return Number(value.number);
    case "undefined":
      return undefined;
    case "bigint":
      return BigInt(value.bigint);
    case "symbol":
      return Symbol(value.symbol);
    case "object": {
      const found = {};
      for (const [key, one] of value.object) {
        const name = decodedValue(key, own); // `__proto__` is a key as any other
        const part = decodedValue(one, own);
        if (typeof name !== "string" || typeof part === "function" && !held) throw new TypeError("no plain object");
        Object.defineProperty(found, name, {
          value: part,
          writable: true,
          enumerable: true,
          configurable: true,
        });
      }
      return found;
    }
    case "map":
      return new Map(value.map.map(each));
    case "set":
      return new Set(each(value.set));
    case "date":
      return new Date(value.date ?? NaN);
    case "error":
      return decodedError(value.error, own);
    case "typed":
      if (!TYPED.includes(value.typed)) throw new TypeError("no typed array");
      return new (globalThis as any)[`${value.typed}Array`](each(value.values));
  }
  return own(value);
}

/** The classes that an exception of the program said it has. */
export const CLASSES = new WeakMap<object, string[]>();

/** An exception of the first built-in class that it is one of. */
export function decodedError(raised: Encoded, own: (value: Encoded) => unknown): Error {
  const classes: string[] = Array.isArray(raised.classes)
    ? raised.classes.filter((name: unknown) => typeof name === "string")
    : [];
  const known = ["EvalError", "RangeError", "ReferenceError", "SyntaxError", "TypeError", "URIError"];
  const Made = (globalThis as any)[classes.find((name) => known.includes(name)) ?? "Error"];
  const error: Error = new Made(String(raised.text));
  if (typeof raised.name === "string" && raised.name !== error.name) {
    Object.defineProperty(error, "name", { value: raised.name, writable: true, configurable: true });
  }
  for (const [key, one] of raised.held ?? []) {
    const value = decodedValue(one, own);
    if (typeof key !== "string" || TOLD.includes(key) || typeof value === "function") throw new TypeError("no exception");
    const enumerable = !HIDDEN.includes(key);
    Object.defineProperty(error, key, { value, enumerable, writable: true, configurable: true });
  }
  CLASSES.set(error, classes);
  return error;
}
