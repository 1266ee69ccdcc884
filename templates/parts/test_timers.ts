/** Timers that a test waits for, also where it does not say so: else it would be over before its assertions. */
export class Timers {
  private readonly begin: any = setTimeout.bind(globalThis);
  private readonly again: any = setInterval.bind(globalThis);
  private readonly end: any = clearTimeout.bind(globalThis);
  private readonly waiting = new Set<unknown>();
  private readonly failing: (error: unknown) => void;

  constructor(failing: (error: unknown) => void) {
    this.failing = failing;
  }

  get pending(): boolean {
    return this.waiting.size > 0;
  }

  /** Waits until all that is due now has been done. */
  turn(): Promise<void> {
    return new Promise((done) => this.begin(done, 0));
  }

  get globals(): Record<string, any> {
    const made = (begin: any, again: boolean) => (step: any, wait?: number, ...given: unknown[]) => {
      const timer = begin(() => {
        if (!again) this.waiting.delete(timer);
        try {
          step(...given);
        } catch (error) {
          this.failing(error);
        }
      }, wait);
      this.waiting.add(timer);
      return timer;
    };
    const ended = (timer: unknown) => {
      this.waiting.delete(timer);
      this.end(timer);
    };
    const later = Object.assign(made(this.begin, false), {
      [Symbol.for("nodejs.util.promisify.custom")]: this.promises.setTimeout,
    });
    const setImmediate = (step: any, ...given: unknown[]) => later(step, 0, ...given);
    return {
      setTimeout: later,
      clearTimeout: ended,
      setInterval: made(this.again, true),
      clearInterval: ended,
      setImmediate,
      clearImmediate: ended,
    };
  }

  /** As `node:timers/promises`. */
  get promises(): Record<string, any> {
    const sleep = (wait?: number, value?: unknown) =>
      new Promise((done) => {
        const timer = this.begin(() => {
          this.waiting.delete(timer);
          done(value);
        }, wait);
        this.waiting.add(timer);
      });
    return { setTimeout: sleep, setImmediate: (value?: unknown) => sleep(0, value) };
  }
}
