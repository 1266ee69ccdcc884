import nodeAssert from "node:assert";

const ASKED = 5_000; // things that tests may ask in a row
const STEPS = 100_000; // uses of answers that are not known yet, after which the tests wait for these

/** Ends a run of the tests: it has asked enough. */
class Stop extends Error {}

/** What the tests of this run ask, in order, and the answers to those that were asked before in the same order. */
export class Questions {
  known: any[];
  answers: any[];
  classes: Record<string, any>;
  asked: any[] = [];
  /** Whether an answer is not known. From then on, what the tests see is made up, and proves nothing. */
  missing = false;
  /** Why the answers are not believed, if they are not: no test may overlook it. */
  spoilt = "";
  /** Why the tests cannot be run, if they cannot. */
  refused = "";
  printed: string[] = [];
  last = "";
  unknown: any;
  steps = 0;
  stands = new Map<any, any>();
  made = new Map<string, any>();

  constructor(known: any[], reply: any) {
    this.known = known;
    this.answers = Array.isArray(reply?.answers) ? reply.answers : [];
    this.classes = reply?.classes !== null && typeof reply?.classes === "object" ? reply.classes : {};
    this.unknown = this.standForUnknown();
  }

  ask(question: any, given: any[] = []): any {
    if (given.includes(this.unknown)) return this.unsure();
    if (given.length) question.args = given.map((one) => encodedValue(one, (other) => this.sent(other)));
    if (JSON.stringify(question.args ?? "").includes('{"unsure":true}')) return this.unsure();
    const place = this.asked.push(question) - 1;
    if (this.asked.length > ASKED) {
      this.refused = `the tests ask the program more than ${ASKED} things`;
      throw new Stop();
    }
    if (this.missing || place >= this.known.length || JSON.stringify(this.known[place]) !== JSON.stringify(question)) {
      return this.unsure();
    }
    const answer = this.answers[place];
    if (answer === null || typeof answer !== "object") return this.spoil("it did not answer all that was asked");
    return this.told(question, answer, given);
  }

  /** What stands for an answer. Throws Stop when the tests go on for too long without it. */
  unsure(): any {
    this.missing = true;
    if (++this.steps > STEPS) throw new Stop();
    return this.unknown;
  }

  spoil(why: string): never {
    this.spoilt ||= why;
    throw new Stop();
  }

  told(question: any, answer: any, given: any[]): any {
    if (typeof answer.printed === "string") this.printed.push(answer.printed);
    const said = `${question.of ? question.of.class + "." : ""}${question.name}(${given.map(short).join(", ")})`;
    let value: any;
    try {
      for (const [at, now] of answer.changed ?? []) replaced(given[at], this.received(now));
      value = "raised" in answer ? this.error(answer.raised) : this.received(answer.value);
    } catch (error) {
      if (error instanceof Stop) throw error;
      return this.spoil("it sent an answer that is no value");
    }
    this.last = `${said} ${"raised" in answer ? "threw" : "returned"} ${short(value)}`;
    if (answer.waited === true) return "raised" in answer ? Promise.reject(value) : Promise.resolve(value);
    if ("raised" in answer) throw value;
    return value;
  }

  /** As an error of the first built-in class that it is one of. */
  error(raised: any): unknown {
    const classes = Array.isArray(raised?.classes) ? raised.classes.filter((one: unknown) => typeof one === "string") : [];
    const known: any = { Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };
    const base = known[classes.find((one: string) => Object.hasOwn(known, one)) ?? ""];
    const text = String(raised?.text ?? "").slice(0, 1000);
    if (base === undefined) return text; // it threw what is no error
    const error = new base(text);
    error.name = String(raised.name ?? base.name);
    this.made.set(error, classes);
    return error;
  }

  sent(value: any): unknown {
    if (value === this.unknown) return { unsure: true };
    if (this.stands.has(value)) return this.stands.get(value);
    const what = typeof value === "function" ? "a function" : "an object of a class";
    this.refused = `the tests give the program ${what}; it runs apart from them, and only plain values go to it`;
    throw new Stop();
  }

  received(value: any): any {
    return decodedValue(value, (one) => {
      if (!Number.isSafeInteger(one.own)) throw new TypeError("no number of an object");
      const key = String(one.own);
      const stand = this.made.get(key) ?? this.standForOwn({ own: one.own, class: String(one.class) });
      this.made.set(key, stand);
      return stand;
    });
  }

  /** An object or function of the program's own, which stays there: only what it is asked for comes over. */
  standForOwn(sign: { own: number; class: string }): any {
    const about = this.classes[sign.class];
    const methods = new Set(Array.isArray(about?.methods) ? about.methods : []);
    const inherited: unknown[] = Array.isArray(about?.bases) ? about.bases : [];
    // A key that no other value has: it equals nothing but itself.
    const target = Object.assign(sign.class === "function" ? function () {} : {}, { [`evalcell ${sign.own}`]: sign.class });
    const stand: any = new Proxy(target, {
      get: (_, name) => {
        if (Object.hasOwn(target, name) && typeof name === "string" && name.startsWith("evalcell ")) return (target as any)[name];
        if (name === Symbol.toPrimitive) return () => this.ask({ of: sign, name: "toString" });
        if (typeof name === "symbol" || name === "then" || name === "constructor" || name === "prototype") return undefined;
        if (methods.has(name)) return (...given: any[]) => this.ask({ of: sign, name }, given);
        return this.ask({ of: sign, name, get: true });
      },
      set: (_, name, value) => (this.ask({ of: sign, name: String(name), set: true }, [value]), true),
      apply: (_, __, given) => this.ask({ of: sign, name: null }, given),
    });
    this.stands.set(stand, sign);
    this.made.set(stand, inherited);
    return stand;
  }

  /** A name of the program: a function or a class. It is called there. */
  standForName(name: string): any {
    const stand: any = new Proxy(function () {}, {
      apply: (_, __, given) => this.ask({ of: null, name }, given),
      construct: (_, given) => Object(this.ask({ of: null, name, new: true }, given)),
      get: (_, key) => {
        if (key === Symbol.hasInstance) return (one: any) => one === this.unknown || (this.made.get(one) ?? []).includes(name);
        if (key === "name") return name;
        if (typeof key === "symbol" || key === "then" || key === "prototype") return undefined;
        if (["call", "apply", "bind"].includes(key)) return (Function.prototype as any)[key].bind(stand);
        return this.ask({ of: null, name: `${name}.${key}`, get: true });
      },
    });
    this.stands.set(stand, { own: "program", name });
    return stand;
  }

  standForUnknown(): any {
    return new Proxy(function () {}, {
      get: (_, key) => {
        if (key === "then" || key === Symbol.toStringTag) return undefined;
        if (key === Symbol.toPrimitive) return () => (this.unsure(), 0);
        if (key === Symbol.iterator) return function* () {};
        return key === "length" ? 0 : this.unsure();
      },
      apply: () => this.unsure(),
      construct: () => this.unsure(),
      set: () => (this.unsure(), true),
    });
  }
}

function short(value: any): string {
  try {
    const own = value !== null && typeof value === "object" ? Object.keys(value).find((key) => key.startsWith("evalcell ")) : undefined;
    if (own) return `an object of the program's class ${value[own]}`;
    return (typeof value === "function" ? "a function" : value instanceof Error ? `${value.name}: ${value.message}` : Deno.inspect(value)).slice(0, 200);
  } catch {
    return "an object";
  }
}

/** An argument that the program changed; only into more of its own kind. */
function replaced(place: any, value: any) {
  if (Object.getPrototypeOf(place) !== Object.getPrototypeOf(value)) throw new TypeError("an argument changed its class");
  if (Array.isArray(place)) place.splice(0, place.length, ...value);
  else if (place instanceof Map) (place.clear(), value.forEach((one: any, key: any) => place.set(key, one)));
  else if (place instanceof Set) (place.clear(), value.forEach((one: any) => place.add(one)));
  else {
    for (const key of Object.keys(place)) delete place[key];
    Object.defineProperties(place, Object.getOwnPropertyDescriptors(value));
  }
}
