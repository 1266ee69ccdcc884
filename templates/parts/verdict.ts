import { behind, shown } from "./program_values.ts";
import { type Questions, Stop } from "./stand_ins.ts";

/** How an assertion failed. */
export class Failure extends Error {}

/** The test that runs: how many assertions held, how the first one failed, and what is looked at when it is over. */
export interface RunningTest {
  name: string;
  assertions: number;
  failure?: unknown;
  ends: ((assertions: number) => string)[];
}

/** How many cases held and failed, and how the first one failed. An assertion outside of a test is a case, else the test. */
export class Verdict {
  held = 0;
  failed = 0;
  first = "";
  /** Assertions that were reached, also with made-up answers. */
  reached = 0;
  /** Whether what was thrown kept some of them from being reached. */
  cut = false;
  test: RunningTest | null = null;
  /** What must be waited for before a test is over: an assertion about a promise that nobody waits for. */
  waiting: Promise<unknown>[] = [];
  readonly questions: Questions;
  private readonly every: boolean;
  private readonly place: (error: unknown) => string;

  constructor(questions: Questions, every: boolean, place: (error: unknown) => string) {
    this.questions = questions;
    this.every = every;
    this.place = place;
  }

  /** An assertion; `why` says how it failed. Throws where it failed, unless `quietly`. */
  check(holds: () => boolean, why: () => string, quietly = false): void {
    this.reached++;
    if (this.questions.missing) return;
    let ok = false;
    try {
      ok = holds();
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      why = () => error.message;
    }
    if (this.questions.missing) return;
    if (ok) {
      if (this.test) this.test.assertions++;
      else this.held++;
      return;
    }
    const failure = new Failure(why());
    if (!this.test) return this.fail(failure);
    this.test.failure ??= failure;
    if (!quietly) throw failure;
  }

  /** A case that failed. Throws Stop if no other one counts any more. */
  fail(error: unknown): void {
    if (this.questions.missing || error instanceof Stop) return;
    this.failed++;
    if (this.failed === 1) {
      const { last } = this.questions;
      const threw = shown(error);
      const why = error instanceof Failure ? error.message : last.includes(`threw ${threw}`) ? "" : `threw ${threw}`;
      const where = [this.test?.name, this.place(error)].filter((part) => part).join(", ");
      this.first = [where, last, why].filter((part) => part).join("; ").slice(0, 600);
    }
    if (this.over) throw new Stop();
  }

  get over(): boolean {
    return this.failed > 0 && !this.every;
  }

  /** Refuses a use of what is not there, by name. */
  refusing(what: string, has: object): any {
    const get = (target: any, name: string | symbol) => {
      if (name in target || typeof name === "symbol" || name === "then") return target[name];
      this.questions.refuse(`the tests use ${what}${String(name)}, which code-tests does not have`);
    };
    return new Proxy(has, { get });
  }

  /** What a function throws; null if it throws nothing. */
  thrownBy(step: any): { error: unknown } | null {
    if (typeof step !== "function") return null;
    try {
      const value = step();
      if (value instanceof Promise) value.catch(() => {});
    } catch (error) {
      if (error instanceof Stop) throw error;
      return { error };
    }
    return null;
  }

  /** The same of a promise, or of a function that gives one. */
  async rejectionOf(given: any): Promise<{ error: unknown } | null> {
    try {
      await (typeof given === "function" && !behind(given)?.unknown ? given() : given);
    } catch (error) {
      if (error instanceof Stop) throw error;
      return { error };
    }
    return null;
  }

  /** Has a test wait for an assertion, also where nothing else does. */
  later(step: () => Promise<void>): Promise<void> {
    const done = step();
    done.catch(() => {});
    this.waiting.push(done);
    return done;
  }
}
