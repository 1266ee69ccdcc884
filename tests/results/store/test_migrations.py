"""A store of each earlier schema is brought up to date, and keeps what it has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection, inspect, text

from runner.inputs.evaluators.load import parse_evaluator, with_files
from runner.results.store import open_store
from runner.results.store.database import Database, upgrade
from runner.results.store.errors import StoreError
from runner.results.store.schema import HEAD, metadata
from runner.results.store.types import RunSpec
from sandboxes.base import SandboxConfig
from tests.results.store.making import evaluator, failed, result, segment

MIGRATIONS = Path(upgrade.__code__.co_filename).parent / "migrations"
SEEN = "def get_assert(output, context):\n    return True\n"
RUN = "20260102-030405-678"


def script_directory() -> ScriptDirectory:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    return ScriptDirectory.from_config(config)


REVISIONS = [revision.revision for revision in script_directory().walk_revisions()][::-1]


def opened(address: str | None, folder: Path) -> Database:
    folder.mkdir(mode=0o700, exist_ok=True)
    return Database(address or URL.create("sqlite", database=str(folder / "store.sqlite")))


def filled(database: Database, folder: Path, revision: str) -> None:
    """What an evalcell of the revision left: one of each."""
    scored = segment(result(1, 0.5), failed(2), result(3, 1.0))
    digest = "ab" * 32
    with database.write() as connection:
        upgrade(connection, revision)
        run: dict[str, object] = {
            **{"id": RUN, "title": "old", "evaluator": "polite", "number": 1, "version": evaluator().version},
            **{"dataset": "rows", "digest": digest, "direction": "maximize", "sandbox": "wasm", "why": "", "rows": 3},
            **{"state": "parked", "owner": "server", "created": 1_700_000_000_000_000, "scored": 2, "abstained": 0},
            **{"failed": 1, "lost": 0, "bytes": len(scored.data), "command": "evalcell run polite@1 store:rows"},
            "spec": '{"evaluator":"polite@1","dataset":"rows","sandbox":{"isolation":"call"}}',
        }
        if revision >= "0002":
            run |= {"scores": 2, "score_sum": 1.5}
        tables: dict[str, dict[str, object]] = {
            "evaluators": {"name": "polite", "created": 1_700_000_000_000_000, "number": 1},
            "versions": {
                **{"name": "polite", "number": 1, "version": evaluator().version, "language": "python"},
                **{"created": 1_700_000_000_000_000, "source": evaluator().source, "description": ""},
            },
            "datasets": {
                **{"name": "rows", "digest": digest, "suffix": ".jsonl", "bytes": 3, "rows": 1},
                **{"columns": '["output"]', "created": 1_700_000_000_000_000},
            },
            "presets": {"name": "strict", "config": '{"isolation":"call"}', "created": 1_700_000_000_000_000},
            "runs": run,
            "segments": {
                **{"run": RUN, "first": 1, "rows": 3, "digest": digest, "bytes": len(scored.data)},
                "entries": scored.index,
            },
        }
        for table, values in tables.items():
            names = ", ".join(values)
            marks = ", ".join(f":{name}" for name in values)
            connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({marks})"), values)
    place = folder / "files" / "ab" / f"{digest}.segment.jsonl"
    place.parent.mkdir(parents=True)
    place.write_bytes(scored.data)


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_store_of_an_earlier_schema_keeps_what_it_has(address: str | None, folder: Path, revision: str) -> None:
    database = opened(address, folder)
    filled(database, folder, revision)
    database.close()
    for _ in range(2):
        with open_store(address, folder) as store:
            assert store.evaluator("polite@1").evaluator() == evaluator()
            assert store.dataset("rows").columns == ("output",)
            assert store.preset("strict").config == SandboxConfig(isolation="call")
            run = store.run(RUN)
            assert (run.title, run.state, run.rows, run.mean) == ("old", "parked", 3, 0.75)
            assert run.counts == {"scored": 2, "failed": 1}
            assert store.spec(RUN) == RunSpec(
                evaluator="polite@1", dataset="rows", sandbox=SandboxConfig(isolation="call")
            )
            assert [row["score"] for row in store.select(RUN).rows] == [0.5, None, 1.0]
    with open_store(address, folder) as store:
        assert store.add_segment(RUN, segment(result(4, 0.0))) == 4
        assert store.run(RUN).mean == 0.5
        assert store.add_evaluator(evaluator()).number == 1  # what is in one file has the version that it had
        assert store.evaluator("polite@1").files == {}
        several = with_files(evaluator(), {"helper.py": "WORDS = []\n", "words/é.txt": "é\n"}, "polite")
        kept = store.add_evaluator(several)
        assert (kept.number, store.evaluator("polite@2").evaluator()) == (2, several)
        assert store.add_evaluator(with_files(several, {"helper.py": "WORDS = [1]\n"}, "polite")).number == 3
        assert store.add_evaluator(evaluator("return 0")).number == 4


def test_what_an_older_version_is_read_as_counts_as_asked_for(address: str | None, folder: Path) -> None:
    database = opened(address, folder)
    filled(database, folder, "0004")
    with database.write() as connection:
        connection.execute(
            text("UPDATE versions SET dialect = 'promptfoo', entry = 'get_assert', source = :source"), {"source": SEEN}
        )
    database.close()
    with open_store(address, folder) as store:
        kept = store.evaluator("polite@1")
        assert store.add_evaluator(parse_evaluator(SEEN, "polite")) == kept  # nobody changed it
        taken_away = store.add_evaluator(parse_evaluator(SEEN, "polite"), expected=kept.version)
    assert (kept.dialect, kept.asked_dialect, kept.asked_entry) == ("promptfoo", "promptfoo", "get_assert")
    assert (taken_away.number, taken_away.dialect, taken_away.asked_dialect) == (2, "promptfoo", None)


def test_the_tables_are_those_of_the_revisions(address: str | None, folder: Path) -> None:
    assert REVISIONS[-1] == HEAD == script_directory().get_current_head()
    assert sorted(REVISIONS) == REVISIONS
    database = opened(address, folder)
    with database.write() as connection:
        upgrade(connection)
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
    database.close()


def test_a_new_store_has_the_same_tables_as_one_that_was_upgraded(address: str | None, folder: Path) -> None:
    found = []
    for make in (Database.migrate, upgraded):
        database = opened(address, folder)
        make(database)
        with database.write() as connection:
            found.append(described(connection))
            for name in inspect(connection).get_table_names():
                connection.execute(text(f"DROP TABLE {name}" + (" CASCADE" if address else "")))
        database.close()
    assert found[0] == found[1]
    assert {"revision", "alembic_version", *metadata.tables} == found[0].keys()


def upgraded(database: Database) -> None:
    with database.write() as connection:
        upgrade(connection)


def described(connection: Connection) -> dict[str, object]:
    """Each table as the database has it, but for the order of its columns; and what tells its revision."""
    known = inspect(connection)
    tables: dict[str, object] = {
        "revision": connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all()
    }
    for name in known.get_table_names():
        columns = {column["name"]: {**column, "type": str(column["type"])} for column in known.get_columns(name)}
        keys = sorted(map(str, known.get_foreign_keys(name)))
        indexes = sorted(map(str, known.get_indexes(name)))
        tables[name] = (columns, str(known.get_pk_constraint(name)), keys, indexes)
    return tables


def test_a_new_store_is_made_without_alembic(folder: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from runner.results.store import open_store\n"
        "with open_store(folder=Path(sys.argv[1])) as store: print(store.usage().runs)\n"
        "print([name for name in sys.modules if name.startswith('alembic')])"
    )
    words = [sys.executable, "-c", code, str(folder)]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "0\n[]\n"


def test_a_store_of_a_later_evalcell_is_left_alone(address: str | None, folder: Path) -> None:
    database = opened(address, folder)
    database.migrate()
    for later in ("9999", "soon"):
        with database.write() as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = :later"), {"later": later})
        with pytest.raises(StoreError, match="later evalcell"):
            open_store(address, folder)
    database.close()
