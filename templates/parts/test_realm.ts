const { getOwnPropertyDescriptor, getPrototypeOf, isExtensible, ownKeys } = Reflect;
const { is } = Object;

/** An object of the realm as it was before the first tests. */
interface Place {
  of: object;
  base: object | null;
  open: boolean;
  keys: (string | symbol)[];
  held: PropertyDescriptor[];
}

/** What goes on when tests are over, or has a state that no property shows. */
const LASTING = new Set(
  ("AbortSignal Atomics Blob Buffer File FinalizationRegistry MessageChannel MessagePort PerformanceObserver WebAssembly " +
    "addEventListener dispatchEvent fetch performance removeEventListener reportError").split(" "),
);
/** Accessors of the realm that are no more than a function, or that tests have their own for. */
const PLAIN = new Set("atob btoa clearImmediate clearInterval clearTimeout self setImmediate setInterval setTimeout".split(" "));

let first: Place[] | null = null;
let lasting = false;

/** Whether earlier tests of this Worker left something that the next ones could meet. To be asked before any of them run. */
export function isLeft(): boolean {
  try {
    if (first === null) first = places();
    else for (let at = 0; at < first.length && !lasting; at++) lasting = isChanged(first[at]);
  } catch {
    lasting = true; // nothing throws in a realm as it was
  }
  return lasting;
}

/** Tests use these words, or a module whose state is the Worker's: what they leave may not be seen. */
export function used(words: Iterable<string>, isModule = false): void {
  lasting ||= isModule;
  for (const name of words) {
    lasting ||= LASTING.has(name) || !PLAIN.has(name) && !!getOwnPropertyDescriptor(globalThis, name)?.get;
  }
}

/** Objects that no property of the global object leads to. Their prototypes are what tests could change. */
function hidden(): object[] {
  const values = [].values();
  const made: any[] = [function* () {}, async function () {}, async function* () {}, values, "".matchAll(/a/g)];
  made.push(""[Symbol.iterator](), new Map().values(), new Set().values(), values.map(Number));
  made.push(Iterator.from({ next: () => ({ done: true, value: 0 }) } as any), new URLSearchParams().values());
  const segments = new Intl.Segmenter().segment("");
  made.push(segments, segments[Symbol.iterator]());
  return made.map((one) => getPrototypeOf(one)!);
}

/** All that can be reached from these by properties, accessors and prototypes, without running a getter. */
function places(): Place[] {
  // First what descriptors inherit from: as long as it is unchanged, what they do not have reads as undefined.
  const found = new Set<object>([Object.prototype, globalThis, ...hidden()]);
  const all: Place[] = [];
  const reached = (value: unknown) => {
    if (typeof value === "function" || typeof value === "object" && value !== null) found.add(value);
  };
  for (const of of found) { // it grows meanwhile
    const keys = ownKeys(of), base = getPrototypeOf(of);
    const held = keys.map((key) => getOwnPropertyDescriptor(of, key)!);
    reached(base);
    for (const one of held) [one.value, one.get, one.set].forEach(reached);
    all.push({ of, base, open: isExtensible(of), keys, held });
  }
  return all;
}

/** Nothing here runs what tests wrote: no getter is asked, and nothing called that they can replace. */
function isChanged({ of, base, open, keys, held }: Place): boolean {
  const now = ownKeys(of);
  if (now.length !== keys.length || getPrototypeOf(of) !== base || isExtensible(of) !== open) return true;
  for (let at = 0; at < keys.length; at++) if (now[at] !== keys[at]) return true;
  for (let at = 0; at < keys.length; at++) {
    const was = held[at], one = getOwnPropertyDescriptor(of, keys[at])!;
    if (!is(one.value, was.value) || one.get !== was.get || one.set !== was.set) return true;
    if (
      one.writable !== was.writable || one.enumerable !== was.enumerable || one.configurable !== was.configurable
    ) return true;
  }
  return false;
}
