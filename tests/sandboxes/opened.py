"""Scripts that open something while they load, and give back what would differ if two rows shared it."""

from __future__ import annotations

from tests.sandboxes.languages import Source

OPENED = {
    "file": Source(
        python="""
import io, os, sys
found = [place + "/abc.py" for place in sys.path if os.path.isfile(place + "/abc.py")]
words = open(found[0]) if found else io.StringIO("one\\ntwo\\nthree")
def evaluate(): return words.readline()
""",
        typescript="""
const words = new Blob(["one"]).stream().getReader();
export const evaluate = async () => (await words.read()).value?.length ?? "nothing is left";
""",
    ),
    "pipe": Source(
        python="""
import os
try:
    read, write = os.pipe()
    os.set_blocking(read, False)
except (AttributeError, OSError): read = None
def evaluate():
    if read is None: return ""
    try: got = os.read(read, 99).decode()
    except BlockingIOError: got = ""
    os.write(write, b"x")
    return got
""",
        typescript="""
const got: string[] = [];
const {port1, port2} = new MessageChannel();
port1.onmessage = ({data}) => got.push(data);
export async function evaluate() {
  await new Promise((done) => setTimeout(done, 5));
  const before = got.length;
  port2.postMessage("x");
  return before;
}
""",
    ),
    "temporary-file": Source(
        python="""
import io, tempfile
try: file = tempfile.TemporaryFile("w+")
except OSError: file = io.StringIO()
def evaluate():
    file.write("x")
    file.flush()
    return file.tell()
""",
        typescript="""
const kept = new URLSearchParams();
export function evaluate() {
  kept.append("x", "x");
  return kept.size;
}
""",
    ),
    "file-by-name": Source(
        python="""
try: open("/tmp/kept", "w").write("a")
except OSError: evaluate = lambda: 1
else:
    def evaluate():
        with open("/tmp/kept", "r+") as file:
            before = file.read()
            file.write("b")
            return before
""",
        typescript="""
const url = URL.createObjectURL(new Blob(["a"]));
export const evaluate = async () => await fetch(url).then((found) => found.text(), () => "");
""",
    ),
    "event-loop": Source(
        python="""
import asyncio, socket
seen = []
try:
    loop = asyncio.new_event_loop()
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    loop.add_reader(ours, lambda: seen.append(ours.recv(99)))
except (AttributeError, OSError, NotImplementedError): loop = None
def evaluate():
    if loop is None: return 0
    loop.run_until_complete(asyncio.sleep(0.005))
    theirs.send(b"x")
    return len(seen)
""",
        typescript="""
let heard = 0;
const target = new EventTarget();
target.addEventListener("x", () => heard++);
export function evaluate() {
  target.dispatchEvent(new Event("x"));
  return heard;
}
""",
    ),
    "thread": Source(
        python="""
import queue, threading
asked, told, count = queue.Queue(), queue.Queue(), 0
def answer():
    global count
    while True:
        asked.get()
        count += 1
        told.put(count)
try: threading.Thread(target=answer, daemon=True).start()
except RuntimeError: evaluate = lambda: 1
else:
    def evaluate():
        asked.put(1)
        return told.get(timeout=4)
""",
        typescript="""
const shared = new Int32Array(new SharedArrayBuffer(4));
export const evaluate = () => Atomics.add(shared, 0, 1);
""",
    ),
    "process": Source(
        python="""
import os
if hasattr(os, "fork"):
    (asked, ask), (told, tell) = os.pipe(), os.pipe()
    if os.fork() == 0:
        os.close(ask)
        count = 0
        while os.read(asked, 1):
            count += 1
            os.write(tell, bytes([count]))
        os._exit(0)
    def evaluate():
        os.write(ask, b"x")
        return os.read(told, 1)[0]
else: evaluate = lambda: 1
""",
        typescript="""
const memory = new Int32Array(new WebAssembly.Memory({initial: 1, maximum: 1, shared: true}).buffer);
export const evaluate = () => Atomics.add(memory, 0, 1);
""",
    ),
    "shared-memory": Source(
        python="""
import os
try:
    import mmap
    with open("/tmp/map", "w+b") as file:
        file.write(bytes(4096))
        file.flush()
        memory = mmap.mmap(file.fileno(), 4096)
    os.unlink("/tmp/map")
except (ImportError, OSError): memory = bytearray(1)
def evaluate():
    memory[0] += 1
    return memory[0]
""",
        typescript="""
const memory = new Uint8Array(new SharedArrayBuffer(1));
export const evaluate = () => ++memory[0];
""",
    ),
    "hooks": Source(
        python="""
import gc, os, signal, sys
seen = []
def note(*given, **named): seen.append(1)
for name in ("fork", "waitpid", "listdir", "kill", "dup2", "close"):
    def noted(*given, real=getattr(os, name, None)):
        note()
        return real(*given)
    setattr(os, name, noted)
if hasattr(os, "register_at_fork"): os.register_at_fork(before=note, after_in_parent=note)
if hasattr(signal, "SIGCHLD") and hasattr(signal, "setitimer"): signal.signal(signal.SIGCHLD, note)
frame = sys._getframe()
while frame := frame.f_back: frame.f_globals.setdefault("len", lambda what, len=len: note() or len(what))
count = sum
seen.clear()
def evaluate(): return count(seen)
""",
        typescript="""
let seen = 0;
for (const name of ["postMessage", "close", "start"] as const) {
  const real = MessagePort.prototype[name] as any;
  MessagePort.prototype[name] = function (...given: unknown[]) { seen++; return real.apply(this, given); } as any;
}
export const evaluate = () => seen;
""",
    ),
}
"""What forks share, or do not have. Where a sandbox has no such thing at all, the script does without."""
