"""A script of many ends, and limits that are soon reached."""

from __future__ import annotations

from sandboxes import Limits

MANY = """
import asyncio, os, random, sys
print("loading")
count = 0
class Thing: pass
def evaluate(x, seed=None):
    global count
    count += 1
    print("row", x)
    match x:
        case "counts": return [count, "loading" in sys.modules]
        case "draws": return [random.random(), os.urandom(4).hex()]
        case "orders": return list({"a", "b", "c", "d", "e", "f", "g"})
        case "raises": return {}["key"]
        case "leaves": raise SystemExit(3)
        case "exits": os._exit(7)
        case "aborts": os.abort()
        case "recurses": return (lambda f: f(f))(lambda f: f(f))
        case "waits": return asyncio.sleep(0.01, result="slept")
        case "hangs":
            while True: pass
        case "sleeps for ever": return asyncio.sleep(60)
        case "floods":
            while True: print("x" * 4096)
        case "says much":
            for n in range(3000): print("line", n, file=sys.stderr if n % 2 else sys.stdout)
            return 1
        case "returns much": return "y" * (2 << 20)
        case "returns a thing": return Thing()
        case "returns nan": return float("nan")
        case "returns text": return "\\udc80 é \\u2028 \\0"
        case "imports": import numpy
        case "listens": import socket; socket.socket()
        case "starts": import subprocess; subprocess.run(["true"])
        case "devices": return [len(open("/dev/urandom", "rb").read(3)), open("/dev/null", "w").write("x")]
        case "files": return [open("/tmp/a", "w").write("a"), os.listdir("/tmp")]
        case "files of another row": return os.listdir("/tmp")
        case "environment": return dict(os.environ)
        case "forks":
            for _ in range(3):
                if os.fork() == 0:
                    os.setpgid(0, 0)
                    while True: pass
            return "forked"
        case "threads":
            import threading, time
            threading.Thread(target=time.sleep, args=(60,)).start()
            return "threaded"
        case "takes memory":
            kept = []
            while True: kept.append(bytearray(1 << 20))
        case "takes it at once": return len(bytearray(10**10))
        case _: return x
"""

SHORT = Limits(timeout=0.7, load_timeout=10, memory=64 << 20, output=2000)
