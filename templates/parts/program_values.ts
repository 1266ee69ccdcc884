import { CLASSES, type Encoded } from "./plain_values.ts";

/** How tests came by an object of the program: they made it with `new`, they named it, or the program chose to return it. */
export type Origin = "made" | "constant" | "chosen";

/** What is behind a stand-in that tests hold. */
export interface Behind {
  unknown?: boolean;
  name?: string; // at the program's top level
  sign?: Encoded; // an object or a function of the program
  origin?: Origin; // of what `sign` tells of
  plain?: () => unknown; // what it holds, as data
}

export const BEHIND = new WeakMap<object, Behind>();
export const behind = (value: unknown): Behind | undefined =>
  typeof value === "function" || typeof value === "object" && value !== null ? BEHIND.get(value) : undefined;

/** The class of what stands for an object of the program: no value that tests expect has it. */
export class OfProgram {}

export const SEALED: ProxyHandler<any> = {
  defineProperty: () => false,
  deleteProperty: () => false,
  setPrototypeOf: () => false,
};

/** Whether a value is of a class of the program, by what the program said of it. */
export function isOf(value: unknown, name: string): boolean {
  const known = behind(value);
  if (known?.unknown) return true;
  const names = known?.sign
    ? known.sign.bases
    : typeof value === "object" && value !== null
    ? CLASSES.get(value)
    : undefined;
  return Array.isArray(names) && names.includes(name);
}

/** The argument that the program says it returned. */
export function argument(given: unknown[], place: unknown): unknown {
  if (!Number.isInteger(place) || !((place as number) in given)) throw new TypeError("no argument");
  return given[place as number];
}

/** An argument that the program changed; only into more of its own kind. */
export function replace(place: any, now: any): void {
  if (Object.getPrototypeOf(place) !== Object.getPrototypeOf(now)) throw new TypeError("an argument changed its class");
  if (place instanceof Map || place instanceof Set) {
    place.clear();
    for (const one of now) place instanceof Map ? place.set(one[0], one[1]) : place.add(one);
  } else if (ArrayBuffer.isView(place)) {
    (place as any).set(now);
  } else if (place instanceof Date) {
    place.setTime(now.getTime());
  } else {
    if (Array.isArray(place)) place.length = 0;
    for (const key of Object.keys(place)) delete place[key];
    Object.defineProperties(place, Object.getOwnPropertyDescriptors(now));
  }
}

/** A value in a message, at most 200 characters. */
export function shown(value: unknown): string {
  const known = behind(value);
  if (known?.sign?.callable) return "a function of the program";
  if (known) {
    return known.unknown
      ? "what is not known"
      : known.name ?? `an object of the program's class ${known.sign.bases?.[0] ?? "Object"}`;
  }
  if (value instanceof Error) return `${value.name}: ${value.message}`.slice(0, 300);
  try {
    return Deno.inspect(value, { depth: 4, breakLength: Infinity, strAbbreviateSize: 200 }).slice(0, 200);
  } catch {
    return typeof value; // it holds an object of the program
  }
}
