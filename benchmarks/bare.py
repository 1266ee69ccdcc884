"""
What a sandbox is measured against: a script's `evaluate` in a bare loop, in a plain Python of its own.

`python -I -S bare.py SCRIPT ROWS [SITE]`: ROWS is a file of JSON, a list of keyword arguments; SITE is a folder of
packages. Each line on standard input has all rows evaluated once; the answer is a line with the seconds that took.
"""

import json
import sys
import time

if len(sys.argv) > 3:
    sys.path.append(sys.argv[3])
names: dict[str, object] = {"__name__": "evaluator"}
with open(sys.argv[1], encoding="utf-8") as script:
    exec(compile(script.read(), sys.argv[1], "exec", dont_inherit=True), names)
with open(sys.argv[2], encoding="utf-8") as file:
    rows = json.load(file)
evaluate = names["evaluate"]
assert callable(evaluate)
for _ in sys.stdin:
    began = time.perf_counter()
    for row in rows:
        evaluate(**row)
    print(time.perf_counter() - began, flush=True)
