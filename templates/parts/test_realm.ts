const { getOwnPropertyDescriptor, getPrototypeOf, isExtensible, ownKeys } = Reflect;
const { is } = Object;

/** An object of the realm as it was before the first tests. Of a plain function, its keys tell enough. */
interface Place {
  of: any;
  base: object | null;
  open: boolean;
  count: number;
  keys: (string | symbol)[];
  values: unknown[];
  accessors: (string | symbol)[];
  held: PropertyDescriptor[];
}

/** What goes on when tests are over, or has a state that no property shows. */
const LASTING = new Set(
  ("AbortSignal Atomics Blob Buffer File FinalizationRegistry MessageChannel MessagePort PerformanceObserver WebAssembly " +
    "addEventListener dispatchEvent fetch removeEventListener reportError").split(" "),
);
/** Accessors of the realm that are no more than a function, or that tests have their own for. */
const PLAIN = new Set("atob btoa clearImmediate clearInterval clearTimeout self setImmediate setInterval setTimeout".split(" "));

let first: Place[] | null = null;
let lasting = false;

/** Whether earlier tests of this Worker left something that the next ones could meet. To be asked before any of them run. */
export function isLeft(): boolean {
  if (first === null) first = places();
  else for (let at = 0; at < first.length && !lasting; at++) lasting = isChanged(first[at]);
  return lasting;
}

/** Tests use these words, or a module whose state is the Worker's: what they leave may not be seen. */
export function used(words: Iterable<string>, isModule = false): void {
  lasting ||= isModule;
  for (const name of words) {
    lasting ||= LASTING.has(name) || !PLAIN.has(name) && !!getOwnPropertyDescriptor(globalThis, name)?.get;
  }
}

/** All that can be reached from the global object by properties, without running a getter. */
function places(): Place[] {
  const found = new Set<object>([globalThis]);
  const all: Place[] = [];
  const reached = (value: unknown) => {
    if (typeof value === "function" || typeof value === "object" && value !== null) found.add(value);
  };
  for (const of of found) { // it grows meanwhile
    const own = ownKeys(of), isPlain = typeof of === "function" && !own.includes("prototype");
    const place: Place = {
      of,
      base: getPrototypeOf(of),
      open: isExtensible(of),
      count: own.length,
      keys: [],
      values: [],
      accessors: [],
      held: [],
    };
    all.push(place);
    reached(place.base);
    for (const key of own) {
      const held = getOwnPropertyDescriptor(of, key)!;
      reached(held.value);
      if (isPlain) continue;
      if ("value" in held) place.values[place.keys.push(key) - 1] = held.value;
      else place.held[place.accessors.push(key) - 1] = held;
    }
  }
  return all;
}

/** Nothing here calls what tests can replace. Values are read, which is faster than to look how they are held. */
function isChanged({ of, base, open, count, keys, values, accessors, held }: Place): boolean {
  if (ownKeys(of).length !== count || getPrototypeOf(of) !== base || isExtensible(of) !== open) return true;
  for (let at = 0; at < keys.length; at++) if (!is(of[keys[at]], values[at])) return true;
  for (let at = 0; at < accessors.length; at++) {
    const now = getOwnPropertyDescriptor(of, accessors[at]);
    if (now?.get !== held[at].get || now?.set !== held[at].set) return true;
  }
  return false;
}
