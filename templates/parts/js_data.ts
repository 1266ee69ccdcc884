/** Values of JavaScript as JSON, and back as plain ones alone. `own` says what stands for a value of any other class. */
export function encodedValue(value: any, own: (value: any) => unknown, above: any[] = []): unknown {
  if (value === null || typeof value === "boolean" || typeof value === "string") return value;
  if (typeof value === "number") return Number.isFinite(value) && !Object.is(value, -0) ? value : { number: Object.is(value, -0) ? "-0" : String(value) };
  if (value === undefined) return { undefined: true };
  if (typeof value === "bigint") return { bigint: String(value) };
  if (typeof value !== "object" || above.includes(value)) return own(value);
  const inside = [...above, value];
  const inner = (one: any) => encodedValue(one, own, inside);
  const prototype = Object.getPrototypeOf(value);
  if (Array.isArray(value)) return value.length ? Array.from(value, inner) : [];
  if (prototype === null || prototype === Object.prototype) {
    return { object: Object.keys(value).map((key) => [key, inner(value[key])]) };
  }
  if (prototype === Date.prototype) return { date: inner(value.getTime()) };
  if (prototype === Map.prototype) return { map: [...value].map(([key, one]) => [inner(key), inner(one)]) };
  if (prototype === Set.prototype) return { set: [...value].map(inner) };
  if (prototype === RegExp.prototype) return { regexp: [value.source, value.flags] };
  return own(value);
}

/** What was encoded. Throws for JSON that `encodedValue` does not make, whoever made it. */
export function decodedValue(value: any, own: (value: any) => any): any {
  if (value === null || typeof value !== "object") return value;
  const inner = (one: any) => decodedValue(one, own);
  if (Array.isArray(value)) return value.map(inner);
  if ("own" in value) return own(value);
  const [[kind, told], ...more] = Object.entries(value) as [string, any][];
  if (more.length) throw new TypeError("no encoded value");
  switch (kind) {
    case "undefined":
      return undefined;
    case "number":
      return Number(told);
    case "bigint":
      if (told.length > 10_000) throw new TypeError("too many digits"); // reading more takes longer and longer
      return BigInt(told);
    case "date":
      return new Date(inner(told));
    case "map":
      return new Map(told.map(([key, one]: [any, any]) => [inner(key), inner(one)]));
    case "set":
      return new Set(told.map(inner));
    case "regexp":
      return new RegExp(told[0], told[1]);
    case "object": {
      const made = {};
      for (const [key, one] of told) {
        Object.defineProperty(made, key, { value: inner(one), writable: true, enumerable: true, configurable: true });
      }
      return made;
    }
    default:
      throw new TypeError("no encoded value");
  }
}
