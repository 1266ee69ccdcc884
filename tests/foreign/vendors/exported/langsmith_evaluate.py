"""langsmith's own `evaluate`, without a server, with an exported evaluator: a line for each example."""

from __future__ import annotations

import datetime
import importlib.util
import json
import sys
import uuid

from langsmith import Client
from langsmith.evaluation import evaluate
from langsmith.schemas import Example

file, name = sys.argv[1:]
spec = importlib.util.spec_from_file_location("exported", file)
assert spec is not None
assert spec.loader is not None
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
said = json.loads(sys.stdin.read())
now = datetime.datetime.now(datetime.UTC)
examples = [
    Example(
        id=uuid.UUID(int=n), inputs={"said": one}, outputs={"output": "4"}, dataset_id=uuid.UUID(int=99), created_at=now
    )
    for n, one in enumerate(said)
]
client = Client(api_url="http://127.0.0.1:9", api_key="none")
found = evaluate(
    lambda inputs: {"output": inputs["said"]},
    data=examples,
    evaluators=[getattr(module, name)],
    client=client,
    upload_results=False,
    max_concurrency=2,
)
for one in sorted(found, key=lambda one: one["example"].id.int):
    results = [
        {"key": r.key, "score": r.score, "value": r.value, "comment": r.comment, "extra": r.extra}
        for r in one["evaluation_results"]["results"]
    ]
    sys.stdout.write(json.dumps(results) + "\n")
