"""The pages of the editor, without a browser: what they keep of how a script is read, and what goes on to a run."""

from __future__ import annotations

import html
import re

import httpx
import pytest

from tests.server.http.live import finished
from tests.server.page.forms import form

PART = {"x-evalcell-part": "tried", "x-evalcell": "1"}


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
    ("fields", "said"),
    [
        ({"source": "def evaluate(output:", "rows": "{}"}, "line 1, column \\d+: .*never closed"),
        ({"source": "x = 1", "rows": "{}"}, "evaluate"),
        ({"source": "def evaluate(output): return 1", "rows": "nonsense"}, "row 1 is not JSON"),
        ({"source": "def evaluate(output): return 1", "dataset": "none"}, "none"),
        ({"source": "def evaluate(output): return 1", "dataset": "demo", "timeout": "soon"}, "must be a number"),
    ],
)
def test_what_cannot_be_tried_is_said_in_its_place(client: httpx.Client, fields: dict[str, str], said: str) -> None:
    page = client.post("/evaluators/try", data=fields, headers=PART)
    assert page.status_code == 200
    assert re.search(said, html.unescape(page.text)), page.text
    assert 'role="alert"' in page.text


def chosen(page: str) -> dict[str, str]:
    """The column that is chosen for each parameter, or the path or value."""
    found = {}
    for name, options in re.findall(r'<select id="map-\d+" name="map:([^"]+)".*?>(.*?)</select>', page, re.S):
        found[name] = next(iter(re.findall(r'<option value="([^"]*)" selected', options)), "")
    others = dict(re.findall(r'name="path:([^"]+)" value="([^"]+)"', page))
    return {name: html.unescape(value) for name, value in (found | others).items()}


def test_a_likely_mapping_is_chosen_and_tried_at_once(client: httpx.Client) -> None:
    fields = {"source": "def evaluate(output, reference): return 1", "rows": '{"prediction": "a", "gold": "b"}'}
    page = client.post("/evaluators/try", data=fields, headers=PART).text
    assert chosen(page) == {"output": "prediction", "reference": "gold"}
    assert (page.count("scored"), 'role="alert"' in page) == (1, False), page
    assert 'data-mapping="output = prediction\nreference = gold"' in html.unescape(page)
    swapped = {"mapping_of": "", "map:output": "gold", "map:reference": "", "path:reference": "= 7"}
    page = client.post("/evaluators/try", data=fields | swapped, headers=PART).text
    assert chosen(page) == {"output": "gold", "reference": "= 7"}
    assert re.search(r'aria-label="reference">7<', page)


def test_what_nobody_can_guess_is_a_question_and_no_error(client: httpx.Client) -> None:
    fields = {"source": "def evaluate(zeal, most=3): return 1", "rows": '{"alpha": "a", "beta": "b"}'}
    page = client.post("/evaluators/try", data=fields, headers=PART).text
    assert ("Which column is it?" in page, "alert" in page, "Choose a column for" in page) == (True, False, True), page
    assert "its default" in page
    page = client.post("/evaluators/try", data=fields | {"mapping_of": "", "map:zeal": "beta"}, headers=PART).text
    assert (chosen(page)["zeal"], page.count("scored")) == ("beta", 1)
    broken = {"source": "def evaluate(zeal:", "mapping_of": "", "map:zeal": "beta"}
    page = client.post("/evaluators/try", data=fields | broken, headers=PART).text
    assert 'name="mapping" value="zeal = beta"' in page  # it is there again once the script can be read


def test_a_mapping_is_kept_and_a_role_serves_all_evaluators(client: httpx.Client) -> None:
    client.post("/v1/datasets?name=odd.jsonl", content='{"key": "k1", "bot says": "a", "should be": "b"}\n')
    script = "def evaluate(output, reference):\n    return output < reference\n"
    fields = {"name": "keeps", "language": "python", "source": script, "dataset": "odd", "mapping_of": "odd"}
    fields |= {"map:output": "bot says", "map:reference": "should be", "id": "key"}
    saved = form(client, "/evaluators/save", **fields)
    assert saved.status_code == 303, saved.text
    assert "mapping=output+%3D+bot+says" in saved.headers["location"]
    again = {"source": script, "name": "keeps", "dataset": "odd"}
    page = client.post("/evaluators/try", data=again, headers=PART).text
    assert chosen(page) == {"output": "bot says", "reference": "should be"}
    assert '<span class="id">k1</span>' in page
    other = {"source": "def evaluate(prediction, gold):\n    return 1\n", "name": "another", "dataset": "odd"}
    page = client.post("/evaluators/try", data=other, headers=PART).text
    assert chosen(page) == {"prediction": "bot says", "gold": "should be"}
    page = client.get("/runs/new?evaluator=keeps&dataset=odd").text
    assert (chosen(page)["output"], 'value="key" selected' in page) == ("bot says", True)
    form(client, "/evaluators/save", **fields | {"source": script + "# more\n"})
    both = client.get("/evaluators/keeps/diff?old=1&new=2&dataset=odd").text
    assert (chosen(both)["output"], "<td>k1</td>" in both) == ("bot says", True)
    changed = "/evaluators/keeps/diff?old=1&new=2&dataset=odd&mapping_of=odd&map:output=key&map:reference=key"
    assert client.get(changed).headers["location"].endswith("mapping=output+%3D+key%0Areference+%3D+key")
    named = form(client, "/datasets/odd/columns", **{"role:output": "key", "role:reference": "should be"})
    assert named.status_code == 303
    page = client.post("/evaluators/try", data=other, headers=PART).text
    assert chosen(page) == {"prediction": "key", "gold": "should be"}


def test_a_name_that_is_there_is_asked_about(client: httpx.Client) -> None:
    first = {"name": "there", "language": "python", "source": "def evaluate(output):\n    return 1\n", "fresh": "1"}
    assert form(client, "/evaluators/save", **first).status_code == 303
    assert form(client, "/evaluators/save", **first).status_code == 303  # it is the same
    refused = form(client, "/evaluators/save", **first | {"source": "def evaluate(output):\n    return 2\n"})
    assert (refused.status_code, "there is an evaluator there already" in refused.text) == (409, True)
    head = client.post("/v1/recognise?name=There.py", content="def evaluate(output): ...").json()
    assert (head["name"], head["taken"]) == ("there", True)
    assert client.post("/v1/recognise?name=not.py", content="def evaluate(output): ...").json()["taken"] is False


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("import json\n\ndef evaluat(output):\n    return 1\n", 3),
        ("import json\n\ndef evaluate(output):\n    while True:\n        pass\n", 3),
        ("import json\n\ndef evaluate(output):\n    return object()\n", 3),
        ("def evaluate(output):\n    return 1 / 0\n", 2),
        ("def evaluate(output:\n    return 1\n", 1),
    ],
)
def test_the_line_of_each_error_is_told(client: httpx.Client, source: str, line: int) -> None:
    fields = {"source": source, "rows": '{"output": 1}', "timeout": "0.5"}
    page = html.unescape(client.post("/evaluators/try", data=fields, headers=PART).text)
    assert f'"line": {line},' in page.partition("data-problems=")[2].partition("\n")[0], page


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
    assert chosen(page) == {"output": "prediction", "reference": "gold"}
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
    reply = client.post("/v1/evaluate", json={"evaluator": "asked-native", "rows": [{"output": 1}]}).json()
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


def test_a_script_that_loops_is_not_waited_for_long(client: httpx.Client) -> None:
    fields = {"source": "def evaluate(output):\n    while True: pass\n", "rows": '{"output": 1}'}
    page = client.post("/evaluators/try", data=fields, headers=PART)
    assert "timeout" in page.text
    assert "a row may take 2 s" in page.text
