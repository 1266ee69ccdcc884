const IDLE = 20; // times that an interval may go on after its test in which nothing comes of it

/** Timers that a test waits for, also where it does not say so: else it would be over before its assertions. */
export class Timers {
  private readonly begin: any = setTimeout.bind(globalThis);
  private readonly again: any = setInterval.bind(globalThis);
  private readonly stop: any = clearTimeout.bind(globalThis);
  private readonly waiting = new Set<unknown>();
  /** How often each interval went on since something else happened, and what had happened then. */
  private readonly intervals = new Map<unknown, { idle: number; since: number }>();
  private happened = 0;
  private over = false;
  private readonly failing: (error: unknown) => void;
  private readonly done: () => number;

  /** `done` counts what tests have done otherwise, such as assertions. */
  constructor(failing: (error: unknown) => void, done: () => number) {
    this.failing = failing;
    this.done = done;
  }

  /** Whether something is still to come of a timer. An interval that nobody ends, and of which nothing comes, is none. */
  get pending(): boolean {
    return this.waiting.size > 0 || [...this.intervals.values()].some((one) => one.idle < IDLE);
  }

  /** Waits until all that is due now has been done. */
  turn(): Promise<void> {
    return new Promise((done) => this.begin(done, 0));
  }

  /** Ends all that are left, for good. */
  end(): void {
    this.over = true;
    for (const timer of [...this.waiting, ...this.intervals.keys()]) this.stop(timer);
  }

  get globals(): Record<string, any> {
    const run = (step: any, given: unknown[]) => {
      try {
        step(...given);
      } catch (error) {
        this.failing(error);
      }
    };
    const once = (step: any, wait?: number, ...given: unknown[]) => {
      if (this.over) return undefined;
      const timer = this.begin(() => {
        this.waiting.delete(timer);
        this.happened++;
        run(step, given);
      }, wait);
      this.waiting.add(timer);
      return timer;
    };
    const again = (step: any, wait?: number, ...given: unknown[]) => {
      if (this.over) return undefined;
      const about = { idle: 0, since: -1 };
      const timer = this.again(() => {
        run(step, given);
        const now = this.happened + this.done();
        about.idle = now === about.since ? about.idle + 1 : 0;
        about.since = now;
      }, wait);
      this.intervals.set(timer, about);
      return timer;
    };
    const ended = (timer: unknown) => {
      if (this.waiting.delete(timer) || this.intervals.delete(timer)) this.happened++;
      this.stop(timer);
    };
    const later = Object.assign(once, { [Symbol.for("nodejs.util.promisify.custom")]: this.promises.setTimeout });
    const setImmediate = (step: any, ...given: unknown[]) => later(step, 0, ...given);
    return {
      setTimeout: later,
      clearTimeout: ended,
      setInterval: again,
      clearInterval: ended,
      setImmediate,
      clearImmediate: ended,
    };
  }

  /** As `node:timers/promises`. */
  get promises(): Record<string, any> {
    const sleep = (wait?: number, value?: unknown) =>
      new Promise((done) => {
        if (this.over) return; // and so is what would wait for it
        const timer = this.begin(() => {
          this.waiting.delete(timer);
          this.happened++;
          done(value);
        }, wait);
        this.waiting.add(timer);
      });
    return { setTimeout: sleep, setImmediate: (value?: unknown) => sleep(0, value) };
  }
}
