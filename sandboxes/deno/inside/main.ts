/**
 * The trusted half of what runs in Deno: gives calls to Workers, and tells the host what came of them.
 *
 * It alone may open the two pipes. A script runs in a Worker without any permission, and reaches the port of its own
 * Worker at most. The host judges time and memory, and ends the whole process where one is exceeded: nothing here has
 * to stop a script that does not want to end.
 */

const LOADED = 0, BEGUN = 1, RESULT = 2, GONE = 3, HELLO = 4, READY = 5;

type Setting = { source: string; boot: string; seed: number };
type Told = { kind: number; seconds: number; text: string };

const [folder] = Deno.args;
const asked = Deno.openSync(`${folder}/asked`, { read: true });
const told = Deno.openSync(`${folder}/told`, { write: true });
const encoder = new TextEncoder();
const decoder = new TextDecoder();

async function bytes(count: number): Promise<Uint8Array> {
  const whole = new Uint8Array(count);
  for (let at = 0; at < count;) {
    const got = await asked.read(whole.subarray(at));
    if (got === null) Deno.exit(0); // the host is gone
    at += got;
  }
  return whole;
}

async function number(): Promise<number> {
  return new DataView((await bytes(4)).buffer).getUint32(0, true);
}

/** A list of texts: the length of all, then each with its own before it. */
async function texts(): Promise<string[]> {
  const whole = await bytes(await number());
  const view = new DataView(whole.buffer);
  const found: string[] = [];
  for (let at = 0; at < whole.length;) {
    const size = view.getUint32(at, true);
    found.push(decoder.decode(whole.subarray(at + 4, at + 4 + size)));
    at += 4 + size;
  }
  return found;
}

/** Stands before each frame. The host learns it before there is a script: what another wrote into the pipe lacks it. */
const key = crypto.getRandomValues(new Uint8Array(16));
const HEAD = key.length + 20;

/** The key, kind, place, seconds, length, and the text itself. */
function tell(kind: number, place: number, seconds: number, text: string): void {
  const room = new Uint8Array(HEAD + text.length * 3);
  const size = encoder.encodeInto(text, room.subarray(HEAD)).written;
  const view = new DataView(room.buffer, key.length);
  room.set(key);
  view.setUint32(0, kind, true);
  view.setUint32(4, place, true);
  view.setFloat64(8, seconds, true);
  view.setUint32(16, size, true);
  for (let at = 0; at < HEAD + size;) at += told.writeSync(room.subarray(at, HEAD + size));
}

/** A Worker; at first it has not loaded the script. */
class Held {
  readonly #worker: Worker;
  readonly #port: MessagePort;
  #heard: (message: Told) => void = () => {};
  // Of its own: a script may revoke them, and they are the process's.
  readonly #script = URL.createObjectURL(new Blob([source], { type: "application/typescript" }));
  readonly #boot = URL.createObjectURL(new Blob([boot], { type: "application/javascript" }));

  constructor() {
    // deno-lint-ignore no-explicit-any
    const options = { type: "module", deno: { permissions: "none" } } as any;
    const { port1, port2 } = new MessageChannel();
    this.#worker = new Worker(this.#boot, options);
    this.#port = port1;
    port1.onmessage = ({ data }) => {
      if (typeof data?.text === "string" && typeof data.kind === "number" && typeof data.seconds === "number") {
        this.#heard(data);
      }
    };
    this.#worker.onerror = (event) => {
      event.preventDefault();
      this.#heard({ kind: GONE, seconds: 0, text: String(event.message).slice(0, 1000) });
    };
    this.#worker.postMessage(port2, [port2]);
  }

  load(): Promise<Told> {
    return new Promise((done) => {
      this.#heard = done;
      this.#port.postMessage({ source: this.#script, seed });
    });
  }

  /** Has it make the calls; `heard` is given what comes of each. */
  run(calls: string[], mark: Uint8Array, heard: (message: Told) => void): void {
    this.#heard = heard;
    this.#port.postMessage({ calls, mark });
  }

  end(): void {
    this.#heard = () => {};
    this.#port.close();
    this.#worker.terminate();
    URL.revokeObjectURL(this.#script);
    URL.revokeObjectURL(this.#boot);
  }
}

tell(HELLO, 0, 0, Deno.version.deno);
const { source, boot, seed } = JSON.parse((await texts())[0]) as Setting;

function print(mark: Uint8Array): void {
  for (let at = 0; at < mark.length;) at += Deno.stdout.writeSync(mark.subarray(at));
}

/**
 * One run: all its calls in one Worker, which is over before its last result is told.
 *
 * The mark stands before what the first call prints, and after what each does.
 */
async function run(calls: string[], mark: Uint8Array): Promise<void> {
  const worker = ready ?? blank ?? new Held();
  const begun = ready === null ? await worker.load() : loaded;
  ready = blank = null;
  print(mark);
  const well = begun.kind === LOADED && JSON.parse(begun.text).status === "ok";
  if (!well) worker.end();
  tell(begun.kind === LOADED ? BEGUN : GONE, 0, 0, begun.text);
  if (!well) return;
  await new Promise<void>((done) => {
    let place = 0;
    // Where the Worker makes one call, nothing in it needs to know the mark.
    worker.run(calls, calls.length > 1 ? mark : new Uint8Array(), ({ kind, seconds, text }) => {
      const last = kind !== RESULT || place + 1 === calls.length;
      if (last) {
        worker.end();
        print(mark);
      }
      tell(kind, place++, seconds, text);
      if (last) done();
    });
  });
}

let ready: Held | null = new Held();
let blank: Held | null = null;
const loaded = await ready.load();
tell(loaded.kind, 0, 0, loaded.text);

while (true) {
  const [mark, ...calls] = await texts();
  await run(calls, encoder.encode(mark));
  blank ??= new Held();
  tell(READY, 0, 0, "");
}
