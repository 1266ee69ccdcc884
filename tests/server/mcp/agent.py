"""What an agent does with the tools, through the official client, whatever carries them."""

from __future__ import annotations

import json
from typing import Any

from mcp import Client

WRONG = """\
# /// script
# [tool.evalcell.output]
# kind = "continuous"
# direction = "maximize"
# ///
def evaluate(output, reference):
    print("looking at", output)
    return 1 / (int(output) - int(reference))
"""
RIGHT = WRONG.replace("1 / (int(output) - int(reference))", "float(output == reference)")
ROWS = [{"id": f"r{n}", "output": str(n % 3), "reference": "1"} for n in range(6)]


class ToolFailedError(Exception):
    """What a tool says went wrong."""


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    found = await client.call_tool(tool, arguments)
    text = "".join(getattr(part, "text", "") for part in found.content)
    if found.is_error:
        raise ToolFailedError(text)
    reply: dict[str, Any] = json.loads(text)
    assert reply == found.structured_content
    assert len(text) < 60_000
    return reply


async def write_an_evaluator(client: Client, name: str) -> None:
    """Check, try, see where it fails, mend, keep, run, read the worst rows, compare."""
    listed = await client.list_tools()
    tools = {tool.name for tool in listed.tools}
    assert tools == {
        *("list", "show", "check", "try", "audit", "save", "add_dataset"),
        *("run", "status", "cancel", "results", "verify", "compare"),
    }
    assert all(tool.description for tool in listed.tools)
    assert "never" in (client.instructions or "")
    templates = await call(client, "list", kind="templates")
    assert "contains" in [one["name"] for one in templates["items"]]
    assert "def evaluate" in (await call(client, "show", kind="template", name="contains"))["source"]
    broken = await call(client, "check", source=WRONG.replace("def evaluate(", "def evaluate(("))
    assert broken["problems"][0]["line"] == 6
    assert [one["name"] for one in (await call(client, "check", source=WRONG))["parameters"]] == ["output", "reference"]
    tried = await call(client, "try", source=WRONG, rows=ROWS)
    failed = tried["results"][1]
    assert (failed["error"]["kind"], failed["line"], failed["stdout"]) == ("raised", 8, "looking at 1\n")
    assert failed["arguments"] == {"output": "1", "reference": "1"}
    assert tried["summary"]["failed"] == 2
    assert (await call(client, "try", source=RIGHT, rows=ROWS))["summary"]["mean"] == 1 / 3
    first = await call(client, "save", source=WRONG, name=name)
    second = await call(client, "save", source=RIGHT, name=name, expected=first["version"])
    assert (second["reference"], second["version"] != first["version"]) == (f"{name}@2", True)
    shown = await call(client, "show", kind="evaluator", name=name)
    assert shown["source"] == RIGHT
    rows = await call(client, "add_dataset", name=f"{name}-rows", rows=ROWS)
    assert (await call(client, "show", kind="dataset", name=rows["name"], first=2, count=1))["rows"][0]["row"] == ROWS[
        1
    ]
    assert len((await call(client, "try", evaluator=f"{name}@2", dataset=rows["name"], count=2))["results"]) == 2
    runs = []
    for version in (1, 2):
        started = await call(client, "run", evaluator=f"{name}@{version}", dataset=rows["name"])
        state = await call(client, "status", run=started["id"], wait=60)
        while state["state"] in ("queued", "running"):
            state = await call(client, "status", run=started["id"], wait=60)
        assert state["state"] == "finished"
        runs.append(started["id"])
    worst = await call(client, "results", run=runs[0], count=2)
    assert (worst["total"], [one["outcome"] for one in worst["rows"]]) == (6, ["scored", "scored"])
    assert [one["id"] for one in (await call(client, "results", run=runs[1], order="best", low=1))["rows"]] == [
        "r1",
        "r4",
    ]
    assert (await call(client, "verify", run=runs[0]))["verdict"] == "equal: 6 rows of 6 give the same again"
    assert (await call(client, "compare", base=runs[0], new=runs[1]))["pairs"] == 6
    assert {one["id"] for one in (await call(client, "list", kind="runs"))["items"]} >= set(runs)
