"""Opik's own Python backend, from its source: status and body of its answer to each request, one a line."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
from types import ModuleType

os.environ |= {"OPIK_TRACK_DISABLE": "true", "OPIK_SENTRY_ENABLE": "false", "OPIK_USER_ANALYTICS_ENABLE": "false"}

from flask import Flask

# The package's own `__init__` starts the whole backend with its queues; the route needs none of that.
package = sys.modules["opik_backend"] = ModuleType("opik_backend")
package.__path__ = [sys.argv[1]]
route = importlib.import_module("opik_backend.evaluator")
worker = importlib.import_module("opik_backend.process_worker")


class InProcess:
    """Runs the code here, by the function that its worker processes call."""

    run_scoring = staticmethod(worker.run_user_code)


app = Flask("opik_backend")
app.register_blueprint(route.evaluator)
app.executor = InProcess()
client = app.test_client()
for line in sys.stdin:
    with contextlib.redirect_stdout(sys.stderr):
        reply = client.post("/v1/private/evaluators/python", data=line)
        said = json.dumps([reply.status_code, reply.json])
    print(said, flush=True)
