"""The pages without a browser: what they say, that nothing of a script is markup, and that each failure is a page."""

from __future__ import annotations

import html
import json
import re

import httpx
import pytest

from runner.results.json_diff import json_differences
from runner.server.web.cards import _cut
from tests.server.live import Live, finished

EVIL = "</textarea><script>alert(1)</script>"
DEEP = "[" * 400 + "]" * 400
SOURCE = f"""\
def evaluate(output):
    print({EVIL!r})
    if output == "raise":
        raise ValueError({EVIL!r})
    return {{"label": {EVIL!r}, "score": 1.0, "explanation": {EVIL!r}}}
"""


def form(client: httpx.Client, path: str, **fields: str) -> httpx.Response:
    return client.post(path, data=fields, headers={"origin": str(client.base_url).rstrip("/")})


def test_what_a_script_says_is_text_on_every_page(client: httpx.Client) -> None:
    rows = [{"id": EVIL, "output": EVIL}, {"output": "raise"}, {"output": json.loads(DEEP)}]
    client.post("/v1/datasets?name=evil.jsonl", content="".join(json.dumps(row) + "\n" for row in rows))
    tried = form(client, "/evaluators/try", source=SOURCE, name="evil", language="python", dataset="evil")
    saved = form(client, "/evaluators/save", source=SOURCE, name="evil", language="python", dataset="evil")
    assert (tried.status_code, saved.status_code, saved.headers["location"]) == (
        200,
        303,
        "/evaluators/evil?dataset=evil",
    )
    run = client.post("/v1/runs", json={"evaluator": "evil", "dataset": "evil"}).json()["id"]
    finished(client, run)
    paths = [
        "/evaluators/evil",
        "/datasets/evil",
        "/runs/new?evaluator=evil&dataset=evil",
        f"/runs/{run}",
        "/",
        "/runs",
    ]
    paths += [f"/runs/{run}/rows/{n}" for n in (1, 2, 3)]
    paths += [
        f"/runs/{run}?label={EVIL}&search={EVIL}",
        f"/compare?base={run}&new={run}",
        f"/runs/{EVIL}",
        f"/datasets/{EVIL}",
    ]
    for page in [tried, *(client.get(path) for path in paths)]:
        assert "text/html" in page.headers["content-type"], page.text
        assert "alert(1)" not in re.sub(re.escape(html.escape(EVIL)), "", page.text.replace("&#34;", '"')), page.url
        assert "<script>" not in page.text
    assert html.escape(EVIL) in client.get(f"/runs/{run}").text


def test_a_version_of_somebody_else_is_shown_before_it_is_written_over(client: httpx.Client) -> None:
    old, theirs, yours = (f"def evaluate(output):\n    return {n}\n" for n in (1, 2, 3))
    first = client.post("/v1/evaluators", json={"name": "shared", "source": old}).json()["version"]
    second = client.post("/v1/evaluators", json={"name": "shared", "source": theirs}).json()["version"]
    fields = {"name": "shared", "language": "python", "source": yours}
    refused = form(client, "/evaluators/save", **fields, expected=first)
    assert refused.status_code == 409
    assert "return 2" in refused.text
    assert f'name="expected" value="{second}"' in refused.text
    assert yours.splitlines()[1] in refused.text
    assert form(client, "/evaluators/save", **fields, expected=second).status_code == 303


@pytest.mark.parametrize(
    ("path", "status"),
    [
        *(("/runs/nothing", 404), ("/datasets/nothing", 404), ("/evaluators/nothing@7", 404), ("/nowhere", 404)),
        *(("/evaluators/new?template=nothing", 404), ("/static/page.css", 404), ("/datasets/demo?first=x", 422)),
    ],
)
def test_what_fails_is_a_page_with_one_sentence(client: httpx.Client, path: str, status: int) -> None:
    page = client.get(path)
    assert page.status_code == status
    found = re.search(r'<p class="problem" role="alert">(.{10,}?)</p>', page.text)
    assert found, page.text
    assert "`" not in found[1]  # what is code is shown as code


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"source": "def evaluate(output:", "rows": "{}"}, "line 1, column \\d+: .*never closed"),
        ({"source": "x = 1", "rows": "{}"}, "evaluate"),
        ({"source": "def evaluate(output): return 1", "rows": "nonsense"}, "row 1 is not JSON"),
        ({"source": "def evaluate(output): return 1", "dataset": "none"}, "none"),
        ({"source": "def evaluate(gold): return 1", "dataset": "demo"}, "gold"),
        ({"source": "def evaluate(output): return 1", "dataset": "demo", "timeout": "soon"}, "must be a number"),
    ],
)
def test_what_cannot_be_tried_is_said_in_its_place(client: httpx.Client, fields: dict[str, str], said: str) -> None:
    page = client.post("/evaluators/try", data=fields, headers={"x-evalcell-part": "tried", "x-evalcell": "1"})
    assert page.status_code == 200
    assert re.search(said, html.unescape(page.text)), page.text
    assert 'role="alert"' in page.text


def test_a_row_that_failed_says_its_line_once(client: httpx.Client) -> None:
    fields = {"source": "def evaluate(output):\n    return 1 / 0\n", "dataset": "demo"}
    page = client.post("/evaluators/try", data=fields, headers={"x-evalcell-part": "tried", "x-evalcell": "1"})
    (said, *_) = re.findall(r"</strong>( in line .*)</p>", page.text)
    assert said == " in line 2, column 12: ZeroDivisionError: division by zero"


def test_a_lone_version_has_nothing_to_be_compared_with(client: httpx.Client) -> None:
    for count in (1, 2):
        source = "def evaluate(output):\n    return " + "1" * count + "\n"
        assert client.post("/v1/evaluators", json={"name": "lone", "source": source}).status_code == 201
        text = client.get("/evaluators/lone").text
        assert text.count('name="old"') == text.count('name="new"') == (0 if count == 1 else 2)


def test_a_likely_mapping_is_suggested(client: httpx.Client) -> None:
    fields = {"source": "def evaluate(output, reference): return 1", "rows": '{"prediction": "a", "gold": "b"}'}
    page = client.post("/evaluators/try", data=fields, headers={"x-evalcell-part": "tried", "x-evalcell": "1"})
    found = re.search(r'data-use-mapping="([^"]+)"', page.text)
    assert found, page.text
    assert html.unescape(found[1]) == "output = prediction\nreference = gold"
    again = client.post(
        "/evaluators/try",
        data={**fields, "mapping": html.unescape(found[1])},
        headers={"x-evalcell-part": "tried", "x-evalcell": "1"},
    )
    assert "scored" in again.text


def test_what_was_tried_in_the_editor_goes_on_to_the_run(client: httpx.Client) -> None:
    client.post("/v1/datasets?name=named.jsonl", content='{"prediction": "a", "gold": "b"}\n')
    fields = {
        **{"source": "def evaluate(output, reference):\n    return 1\n", "name": "carried", "language": "python"},
        **{"dataset": "named", "mapping": "output = prediction\nreference = gold", "timeout": "3", "sandbox": "wasm"},
    }
    leads = form(client, "/evaluators/run", **fields)
    assert leads.status_code == 303, leads.text
    assert leads.headers["location"].startswith("/runs/new?evaluator=carried%401&dataset=named&mapping=output")
    page = client.get(leads.headers["location"]).text
    assert "output = prediction\nreference = gold" in page
    assert 'name="timeout" value="3"' in page
    assert page.count('<article class="tried"') == 1
    opened = form(client, "/evaluators/run", **fields, opened="carried@1")
    assert opened.headers["location"] == leads.headers["location"]
    edited = form(client, "/evaluators/run", **fields | {"source": fields["source"] + "# more\n"}, opened="carried@1")
    assert "evaluator=carried%402&" in edited.headers["location"]
    refused = form(client, "/evaluators/run", **fields | {"mapping": "output = " + "a" * 9000}, opened="carried@1")
    assert (refused.status_code, "too long for a form" in refused.text) == (422, True)


def fields_of(page: str) -> dict[str, str]:
    """What the editor's form would send."""
    fields = dict(re.findall(r'<input (?:type="hidden" )?name="(\w+)" value="([^"]*)"', page))
    for name in ("dialect", "dialect_failures", "language"):
        chosen = page.partition(f'<select name="{name}"')[2].partition("</select>")[0]
        fields[name] = next(iter(re.findall(r'value="([^"]*)" selected', chosen)), "")
    return fields | {"language": "python"}


PROMPTFOO = """\
def get_assert(output, context):
    if output == "b":
        raise ValueError("broken")
    return {"pass": True, "score": 0.5, "reason": "said"}
"""


def test_a_script_of_another_tool_stays_one_while_it_is_changed(client: httpx.Client) -> None:
    client.post("/v1/datasets?name=letters.jsonl", content='{"output": "a"}\n{"output": "b"}\n')
    kept = {"name": "asserted", "source": PROMPTFOO, "dialect": "promptfoo", "dialect_failures": "as-zero"}
    entry = client.post("/v1/evaluators", json=kept).json()["entry"]
    page = client.get("/evaluators/asserted?dataset=letters").text
    fields = fields_of(page)
    assert (fields["dialect"], fields["entry"], fields["dialect_failures"]) == ("promptfoo", "", "as-zero")
    fields |= {"source": PROMPTFOO, "dataset": "letters"}
    changed = fields | {"source": PROMPTFOO.replace("0.5", "0.25")}
    same = form(client, "/evaluators/run", **fields).headers["location"]
    leads = form(client, "/evaluators/run", **changed).headers["location"]
    assert ("asserted%401&" in same, "asserted%402&" in leads) == (True, True)
    version = client.get("/v1/evaluators/asserted").json()
    assert [version[name] for name in ("dialect", "entry", "dialect_failures")] == ["promptfoo", entry, "as-zero"]
    for tried in (form(client, "/evaluators/try", **changed), client.get(leads)):
        found = re.findall(r"<article class=.tried.*?</article>", tried.text, re.S)
        assert [("0.25" in one, "failed" in one) for one in found] == [(True, False), (False, False)], tried.text
    begun = form(client, "/runs/new", evaluator="asserted@2", dataset="letters")
    run = begun.headers["location"].removeprefix("/runs/")
    finished(client, run)
    rows = client.get(f"/v1/runs/{run}/results").json()["rows"]
    assert [row["score"] for row in rows] == [0.25, 0.0]


TWO = "def evaluate(completions, limit=1):\n    return 1.0\n"


def test_what_a_script_was_asked_to_be_read_as_is_kept_and_nothing_else(client: httpx.Client) -> None:
    for name, dialect, read in (("asked-native", "native", None), ("asked-trl", "trl", "trl"), ("seen", "", "trl")):
        form(client, "/evaluators/save", source=TWO, name=name, language="python", dialect=dialect)
        version = client.get(f"/v1/evaluators/{name}").json()
        assert (version["dialect"], version["asked_dialect"]) == (read, dialect or None)
        page = client.get(f"/evaluators/{name}").text
        fields = fields_of(page) | {"source": TWO}
        assert (fields["dialect"], fields["entry"]) == (dialect, "")
        assert ("whatever it looks like: trl" in page, 'placeholder="evaluate"' in page) == (name == "seen",) * 2
        assert f"{name}%401" in form(client, "/evaluators/run", **fields).headers["location"]
        form(client, "/evaluators/save", **fields)
        assert client.get(f"/v1/evaluators/{name}").json()["number"] == 1
    versions = [client.get(f"/v1/evaluators/{name}").json()["version"] for name in ("asked-native", "seen")]
    assert versions[0] != versions[1]
    reply = client.post("/v1/evaluate", json={"evaluator": "asked-native", "rows": [{"completions": 1}]}).json()
    assert "`completions`" in reply["detail"]


def test_a_changed_header_or_name_says_how_a_script_is_read(client: httpx.Client) -> None:
    headed = (
        '# /// script\n# [tool.evalcell]\n# dialect = "{}"\n# ///\ndef {}(completions, **kwargs):\n    return [1.0]\n'
    )
    first = headed.format("trl", "evaluate")
    form(client, "/evaluators/save", source=first, name="headed", language="python")
    fields = fields_of(client.get("/evaluators/headed").text)
    for number, (dialect, name, read, entry) in enumerate(
        (("trl", "renamed", "trl", "renamed"), ("native", "evaluate", None, None)), 2
    ):
        changed = fields | {"source": headed.format(dialect, name)}
        saved = form(client, "/evaluators/save", **changed | {"expected": ""})
        assert saved.status_code == 303, saved.text
        version = client.get("/v1/evaluators/headed").json()
        assert [version[one] for one in ("number", "dialect", "entry")] == [number, read, entry]
    etag = {"if-match": "*"}
    put = client.put("/v1/evaluators/headed", json={"source": headed.format("trl", "other")}, headers=etag).json()
    assert (put["dialect"], put["entry"]) == ("trl", "other")


@pytest.mark.parametrize("path", ["try", "save", "run", "header"])
def test_a_word_that_is_too_long_is_refused(client: httpx.Client, path: str) -> None:
    for name, said in (("dialect", "Read as"), ("entry", "What is called")):
        refused = form(client, f"/evaluators/{path}", source=PROMPTFOO, name="long", **{name: "a" * 201})
        assert (refused.status_code, said in refused.text) == (422, True), refused.text


def test_every_row_that_flipped_is_listed(client: httpx.Client) -> None:
    rows = [{"id": f"row-{n}", "output": n} for n in range(60)]
    client.post("/v1/datasets?name=flips.jsonl", content="".join(json.dumps(row) + "\n" for row in rows))
    header = "# /// script\n# [tool.evalcell.output]\n# kind = 'continuous'\n# direction = 'maximize'\n# ///\n"
    one = "def evaluate(output):\n    return {'score': 1.0, 'label': 'good'}\n"
    other = (
        "def evaluate(output):\n    if output == 59:\n        raise ValueError('broken')\n"
        "    worse = output / 100 if output < 50 else 0.0\n"
        "    return {'score': 1.0 - worse, 'label': 'poor' if output == 55 else 'good'}\n"
    )
    runs = []
    for source in (one, other):
        client.post("/v1/evaluators", json={"name": "flipping", "source": header + source})
        runs.append(client.post("/v1/runs", json={"evaluator": "flipping", "dataset": "flips"}).json()["id"])
        finished(client, runs[-1])
    asked = {"base": runs[0], "new": runs[1]}
    found = client.get("/v1/compare/rows", params=asked | {"count": "100"}).json()
    assert (found["counts"], found["total"]) == ({"outcome": 1, "worse": 49, "label": 1}, 51)
    assert [row["id"] for row in found["rows"]] == ["row-59", *(f"row-{n}" for n in range(49, 0, -1)), "row-55"]
    assert found["rows"][0]["new_score"] is None
    first = client.get("/compare", params=asked).text
    assert "51 rows, 1 to 10" in first
    assert f'/runs/{runs[1]}/rows/60"' in first
    address = html.unescape(re.findall(r'rel="next" href="([^"#]*)', first)[0])
    assert "51 rows, 11 to 20" in client.get(address).text
    labels = client.get("/compare", params=asked | {"flip": "label"}).text
    assert labels.count('<article class="result"') == 1
    assert "good → poor" in labels
    assert "no rows of the kind" in client.get("/compare", params=asked | {"flip": EVIL}).text


@pytest.mark.parametrize(
    ("output", "reference"),
    [("x  y", "x y"), ("w " * 70 + "cat", "w " * 70 + "dog"), ("a" * 250, "a" * 249), ("", None)],
)
def test_what_differs_never_looks_alike_among_other_rows(output: str, reference: str | None) -> None:
    (one,) = json_differences({"a": output}, {"a": reference})
    shown = _cut(one)
    assert shown.output != shown.reference
    assert max(len(shown.output), len(shown.reference)) <= 100


def test_each_sandbox_says_how_fast_it_is(client: httpx.Client) -> None:
    page = html.unescape(client.get("/runs/new?evaluator=json-distance&dataset=demo").text)
    assert page.count("rows a second, by the rows just tried") == 1  # of the one that was chosen
    others = re.findall(r'hx-get="(/runs/new/speed[^"]*)"', page)
    assert [re.findall(r"sandbox=(\w+)", one) for one in others] == [["process"]]
    assert re.search(r"About [\d,]+ rows a second", client.get(others[0]).text)
    broken = client.get("/runs/new/speed?evaluator=json-distance&dataset=demo&mapping=output%20=%20none&sandbox=wasm")
    assert "cannot be said" in broken.text


def test_the_question_is_found_where_the_evaluator_was_not_given_it(client: httpx.Client) -> None:
    lines = '{"input": "what is it?", "output": "a", "more": "beside"}\n{"output": "b"}\n'
    client.post("/v1/datasets?name=asked.jsonl", content=lines)
    client.post("/v1/evaluators", json={"name": "blind", "source": "def evaluate(output):\n    return 1.0\n"})
    runs = []
    for keep in ("", "all"):
        fields = {"evaluator": "blind", "dataset": "asked", "keep": keep}
        runs.append(form(client, "/runs/new", **fields).headers["location"])
        finished(client, runs[-1].removeprefix("/runs/"))
    page = client.get(f"{runs[0]}?search=WHAT+is").text
    assert page.count('<article class="result"') == 1
    assert "what is it?" in page
    found = [client.get(f"/v1{run}/results").json()["rows"] for run in runs]
    assert [row["row"] for row in found[0]] == [{"output": "a", "input": "what is it?"}, {"output": "b"}]
    assert found[1][0]["row"] == {"input": "what is it?", "output": "a", "more": "beside"}


def test_a_run_that_was_cancelled_has_its_figures_and_charts(client: httpx.Client, server: Live) -> None:
    source = "import time\ndef evaluate(output):\n    time.sleep(0.01 if output < 40 else 600)\n    return output / 7\n"
    client.post("/v1/datasets?name=long.jsonl", content="".join(f'{{"output": {n}}}\n' for n in range(50)))
    client.post("/v1/evaluators", json={"name": "endless", "source": source})
    spec = {"evaluator": "endless", "dataset": "long", "limits": {"timeout": 600}}
    run = client.post("/v1/runs", json=spec).json()["id"]
    with client.stream("GET", f"/v1/runs/{run}/events") as events:
        assert any('"rows":' in line for line in events.iter_lines())
    assert form(client, f"/runs/{run}/cancel").status_code == 303
    found = client.get(f"/v1/runs/{run}").json()
    assert found["state"] == "cancelled"
    assert found["summary"]["rows"] == found["rows"] == found["summary"]["scored"] > 0
    assert (found["summary"]["min"], found["summary"]["gates"]) == (0.0, [])
    assert server.service.store.run(run).summary is not None  # it is made once
    page = client.get(f"/runs/{run}").text
    assert '<svg class="histogram"' in page
    assert client.post(f"/v1/runs/{run}/resume").json()["summary"] is None
    assert client.post(f"/v1/runs/{run}/cancel").json()["state"] == "cancelled"


def test_a_script_that_loops_is_not_waited_for_long(client: httpx.Client) -> None:
    fields = {"source": "def evaluate(output):\n    while True: pass\n", "rows": '{"output": 1}'}
    page = client.post("/evaluators/try", data=fields, headers={"x-evalcell-part": "tried", "x-evalcell": "1"})
    assert "timeout" in page.text
    assert "a row may take 2 s" in page.text


def test_a_dataset_is_tried_with_an_evaluator_that_can_score_it(client: httpx.Client) -> None:
    client.post("/v1/evaluators", json={"name": "other", "source": "def evaluate(gold):\n    return 1\n"})
    found = client.get("/datasets/demo/tried")
    assert "other@1" not in found.text
    assert found.text.count('<article class="tried"') == 5
    client.post("/v1/datasets?name=strange.jsonl", content='{"nothing": 1}\n')
    assert "None of the evaluators" in client.get("/datasets/strange/tried").text


def test_a_dataset_with_other_columns_is_offered_with_its_likely_mapping(client: httpx.Client) -> None:
    client.post("/v1/datasets?name=odd.csv", content="prediction,gold\na,b\n")
    client.post("/v1/evaluators", json={"name": "pair", "source": "def evaluate(output, reference):\n    return 1\n"})
    offered = client.get("/datasets/odd/tried").text
    (address,) = [html.unescape(one) for one in re.findall(r'href="(/runs/new\?[^"]*)"', offered)]
    page = client.get(address).text
    assert "output = prediction\nreference = gold" in page
    assert page.count('<article class="tried"') == 1


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/runs",
        "/compare",
        "/datasets/demo",
        "/evaluators/json-distance",
        "/runs/new?evaluator=json-distance&dataset=demo",
        "/evaluators/json-distance/diff?old=1&new=1",
        "/evaluators/json-distance/diff?old=1&new=1&dataset=demo",
    ],
)
def test_the_command_of_a_page_names_what_there_is(client: httpx.Client, path: str) -> None:
    (command,) = re.findall(r'<pre id="command"[^>]*>([^<]*)</pre>', client.get(path).text)
    assert command.startswith("evalcell ")
    assert not re.search(r"\b[A-Z]{3,}\b", command), command


def test_no_page_holds_what_the_policy_forbids(client: httpx.Client) -> None:
    for path in ("/", "/evaluators/new", "/datasets/demo", "/runs", "/runs/new", "/compare", "/login", "/nowhere"):
        text = client.get(path).text
        assert not re.search(
            r"<style|\sstyle=|\son[a-z]+=|javascript:|<script(?! type=.module. src=)|hx-on|js:", text
        ), path
