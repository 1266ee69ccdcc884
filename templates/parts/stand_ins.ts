import { decodedError, decodedValue, type Encoded, encodedValue } from "./plain_values.ts";
import { argument, BEHIND, type Behind, behind, OfProgram, type Origin, replace, SEALED, shown } from "./program_values.ts";

const ASKED = 5_000; // things that tests may ask in a row
const STEPS = 100_000; // uses of answers that are not known yet

/** Ends a run of the tests: it has asked enough, or its verdict stands. */
export class Stop {}

/** Methods of values that decide, or are told what is expected: an object of the program's own could say yes to all. */
const DECIDES = new Set(
  ("includes has some every startsWith endsWith test exec match matchAll search indexOf lastIndexOf find findIndex findLast findLastIndex " +
    "split replace replaceAll concat delete union intersection difference symmetricDifference localeCompare isSubsetOf isSupersetOf " +
    "isDisjointFrom hasOwnProperty propertyIsEnumerable isPrototypeOf equals equal equalTo eq eql isEqual isEqualTo deepEquals same isSame " +
    "sameAs compare compareTo cmp matches contains containsKey containsValue containsAll hasKey hasValue")
    .split(" "),
);

/** What the tests of this run ask, in order, and the answers to those that were asked before in the same order. */
export class Questions {
  readonly asked: any[] = [];
  /** Whether an answer is not known. From then on, what the tests see is made up, and proves nothing. */
  missing = false;
  /** Why the answers are not believed, if they are not: no test may overlook it. */
  spoilt = "";
  /** Whether `spoilt` is no more than that the tests cannot tell: the program may be right. */
  unjudged = false;
  /** Why the tests cannot be run, if they cannot. */
  refused = "";
  /** Whether the first answer that is not known is one of an object that the program chose to return. */
  waitsForChosen = false;
  /** The last thing that was asked, and its answer, in words. */
  last = "";
  printed = "";
  private steps = 0;
  private readonly answers: unknown[];
  private readonly named = new Map<string, unknown>();
  private readonly constants = new Map<string, { value: unknown; calls: number }>();
  private readonly own = new Map<string, object>();
  private calls = 0;
  private isMadeUp = false; // what is sent has an answer in it that is not known
  private readonly known: any[];

  constructor(known: any[], reply: any) {
    this.known = known;
    this.answers = Array.isArray(reply?.answers) ? reply.answers : [];
  }

  refuse(why: string): never {
    this.refused ||= why;
    throw new Stop();
  }

  /** Where the program chose what is asked, no limit may take its row out of the count. */
  private fault(why: string, chosen: boolean): never {
    if (chosen && !this.missing) this.spoil(`${why}, by an object of its own that it returned`);
    if (chosen) throw new Stop();
    this.refuse(why);
  }

  spoil(why: string): never {
    this.spoilt ||= why;
    throw new Stop();
  }

  /** What stands for an answer that is not known. */
  unknown(): any {
    this.missing = true;
    const step = (): any => {
      if (++this.steps > STEPS) throw new Stop();
      return unknown;
    };
    const stop = () => {
      throw new Stop();
    };
    const get = (_target: object, name: string | symbol) => {
      if (name === "then") return undefined;
      if (typeof name === "symbol") {
        return name === Symbol.hasInstance || name === Symbol.toStringTag ? undefined : stop;
      }
      return step();
    };
    const done = () => (step(), true);
    const unknown: any = new Proxy(function () {}, {
      get,
      apply: step,
      construct: step,
      set: done,
      deleteProperty: done,
      ownKeys: stop,
    });
    BEHIND.set(unknown, { unknown: true });
    return unknown;
  }

  /** The answer, or what stands for it as long as it is not known. Throws what the program threw. */
  ask(question: any, given: unknown[] = [], words = "", origin: Origin = "chosen", from: Origin = "made"): any {
    if (this.spoilt || this.refused) throw new Stop();
    const chosen = from === "chosen";
    if ("args" in question || given.length) this.calls++;
    this.isMadeUp = false;
    if (given.length) {
      const args = given.map((one) => this.sent(one, chosen));
      if (this.isMadeUp) return this.unknown();
      question = { ...question, args };
    }
    if (this.asked.length === ASKED) this.fault(`the tests ask the program more than ${ASKED} things`, chosen);
    const place = this.asked.push(question) - 1;
    if (!this.missing) this.waitsForChosen = chosen;
    if (this.missing || JSON.stringify(this.known[place]) !== JSON.stringify(question)) return this.unknown();
    const answer = this.answers[place] as any;
    if (answer === null || typeof answer !== "object") this.spoil("it did not answer all that was asked");
    return this.answered(question, answer, given, words, origin);
  }

  private answered(
    question: any,
    answer: any,
    given: unknown[],
    words: string,
    origin: Origin,
  ): any {
    const said = words && `${words}(${given.map(shown).join(", ")})`;
    if (typeof answer.printed === "string") this.printed += answer.printed;
    let value: any, thrown: { error: unknown } | undefined;
    try {
      const changed = Object.entries(answer.changed ?? {}).map((
        [at, now],
      ) => [given[Number(at)], this.decoded(now)]);
      for (const [place, now] of changed) replace(place, now);
      if (answer.raised) {
        thrown = {
          error: "thrown" in answer.raised ? this.decoded(answer.raised.thrown) : decodedError(answer.raised, (one) => this.standIn(one, "chosen")),
        };
      } else if (!("value" in answer)) throw new TypeError("no value");
      else if (answer.value !== null && typeof answer.value === "object" && "arg" in answer.value) {
        value = argument(given, answer.value.arg);
      } else if (answer.value !== null && typeof answer.value === "object" && "own" in answer.value) {
        value = this.standIn(answer.value, origin);
      } else value = this.decoded(answer.value, !!question.plain);
    } catch (error) {
      if (error instanceof Stop) throw error;
      this.spoil("it sent an answer that is no value");
    }
    const line = Number.isInteger(answer.raised?.line) && answer.raised.line > 0 ? ` (line ${answer.raised.line})` : "";
    if (said) this.last = thrown ? `${said} threw ${shown(thrown.error)}${line}` : `${said} returned ${shown(value)}`;
    if (answer.promised === true && !question.settled) {
      const promise = thrown ? Promise.reject(thrown.error) : Promise.resolve(value);
      promise.catch(() => {}); // the tests may look at it later
      return promise;
    }
    if (thrown) throw thrown.error;
    return value;
  }

  private sent(value: unknown, chosen: boolean): Encoded {
    return encodedValue(value, (one) => {
      const known = behind(one);
      this.isMadeUp ||= !!known?.unknown;
      if (known?.unknown) return null;
      if (known?.name) return { program: known.name };
      if (known?.sign) return { own: known.sign.own };
      const what = typeof one === "function"
        ? "a function"
        : `an object of the class ${one.constructor?.name}, or one with methods`;
      this.fault(`the tests give the program ${what}; it runs apart from them: only plain values go to it`, chosen);
    });
  }

  private decoded(value: Encoded, held = false): unknown {
    return decodedValue(value, (one) => "iterator" in one ? this.iterator(one) : this.standIn(one, "chosen"), held);
  }

  private *iterator(one: Encoded): Generator<unknown> {
    for (const item of one.iterator) yield this.decoded(item);
    if (one.more) this.spoil("it returned an iterator of which the tests read more than 1,000 values");
  }

  /** A name of the program: what it stands for there, or a function that is called there. */
  byName(name: string): any {
    if (this.named.has(name)) return this.named.get(name);
    const before = this.constants.get(name);
    if (before?.calls === this.calls) return before.value; // a getter may change its mind
    const found = this.ask({ of: null, name }, [], "", "constant");
    this.constants.set(name, { value: found, calls: this.calls });
    const known = behind(found);
    if (!known || !known.unknown && !known.sign?.callable) return found;
    const called = (given: unknown[], fresh: boolean) => {
      const made = this.ask(
        { of: null, name, args: [], ...(fresh ? { new: true } : {}) },
        given,
        fresh ? `new ${name}` : name,
        fresh ? "made" : "chosen",
      );
      return made;
    };
    const standIn: any = new Proxy(function () {}, {
      apply: (_target, _self, given) => called(given, false),
      construct: (_target, given) => called(given, true),
      get: (_target, key) =>
        key === Symbol.hasInstance
          ? (value: unknown) => isOf(value, name)
          : key === "name"
          ? name
          : this.part(found, key),
      ...SEALED,
    });
    BEHIND.set(standIn, { name });
    this.named.set(name, standIn);
    return standIn;
  }

  private part(found: any, key: string | symbol): unknown {
    return typeof key === "symbol" || key === "then" || key === "prototype" ? undefined : found[key];
  }

  private standIn(sign: Encoded, origin: Origin): object {
    if (!Number.isInteger(sign.own)) throw new TypeError("no number of an object");
    const before = this.own.get(`${sign.own} ${origin}`);
    if (before) return before;
    const isMade = origin === "made";
    const methods: Set<unknown> = new Set(Array.isArray(sign.methods) ? sign.methods : []);
    const about: Behind = { sign, origin };
    const of = sign.own;
    // What the tests did not make says the same each time, as a value does, until the tests call something again.
    const kept = new Map<string, unknown>();
    let since = this.calls;
    const asked = (question: any): any => {
      if (since !== this.calls || isMade) kept.clear();
      since = this.calls;
      const key = JSON.stringify(question);
      if (!kept.has(key)) {
        const found = this.ask({ of, ...question }, [], "", "chosen", origin);
        kept.set(key, question.list ? Array.from(found) : found);
      }
      return kept.get(key);
    };
    const called = (question: any, given: unknown[], words: string, made: Origin = "chosen") =>
      this.ask({ of, args: [], ...question }, given, words, made, origin);
    const get = (_target: object, key: string | symbol): unknown => {
      if (key === Symbol.iterator) {
        return () => asked({ list: true })[Symbol.iterator]();
      }
      if (key === Symbol.toPrimitive) {
        return (hint: string) =>
          isMade
            ? asked({ primitive: hint })
            : this.spoil("it returned an object of its own where the tests need a value");
      }
      if (typeof key === "symbol" || key === "then") return undefined;
      if (key === "toJSON") return () => this.plain(standIn);
      if (key === "constructor") return { name: sign.name || sign.bases?.[0] };
      if (key === "hasOwnProperty" && !methods.has(key)) {
        return (name: string) => Object.hasOwn(this.plain(standIn), name);
      }
      const isMethod = methods.has(key);
      const value = isMethod ? undefined : asked({ name: key });
      if (!isMade && DECIDES.has(key) && (isMethod || behind(value)?.sign?.callable)) {
        this.unjudged = true;
        this.spoil(`the tests ask the program's own \`${key}\` what they expect`);
      }
      if (!isMethod) return value;
      return (...given: unknown[]) => called({ name: key }, given, `${sign.bases?.[0] ?? "object"}.${key}`);
    };
    const held = () => this.plain(standIn);
    const own = {
      has: (_target: object, key: string | symbol) => key in held(),
      ownKeys: () => Reflect.ownKeys(held()),
      getOwnPropertyDescriptor: (_target: object, key: string | symbol) => Object.getOwnPropertyDescriptor(held(), key),
    };
    const standIn: any = new Proxy(sign.callable ? function () {} : new OfProgram(), {
      get,
      set: (_target, key, value) => (called({ name: key, set: true }, [value], ""), true),
      apply: (_target, _self, given) => called({}, given, sign.name || "the function"),
      construct: (_target, given) => called({ new: true }, given, `new ${sign.name}`, "made"),
      ...(sign.callable ? {} : own),
      ...SEALED,
    });
    about.plain = () => {
      const plain = asked({ plain: true });
      return behind(plain)?.sign ? this.spoil("it sent an answer that is no value") : plain;
    };
    BEHIND.set(standIn, about);
    this.own.set(`${of} ${origin}`, standIn);
    return standIn;
  }

  /** A value as data: what an object of the program's own holds in place of the object. */
  plain(value: any): any {
    const known = behind(value);
    if (!known || known.unknown) return value;
    return known.sign && !known.sign.callable && known.plain ? known.plain() : value;
  }
}
