"""langsmith's own `evaluate`, without a server, with an exported evaluator: a line for each example."""

from __future__ import annotations

import datetime
import json
import runpy
import sys
import uuid

from langsmith import Client
from langsmith.evaluation import evaluate
from langsmith.schemas import Example

file, name = sys.argv[1:]
exported = runpy.run_path(file)[name]
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
    evaluators=[exported],
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
