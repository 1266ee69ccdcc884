"""The connection to the database: transactions, one writer at a time, and errors as the store's."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, OperationalError, SQLAlchemyError, TimeoutError

from runner.core.errors import InputError
from runner.core.text import printable
from runner.results.store.errors import StoreDamagedError, StoreError
from runner.results.store.schema import HEAD, metadata, revisions

VARIABLE = "EVALCELL_DATABASE_URL"
_BUSY = 30.0  # seconds to wait for another process's write
_POOL: dict[str, Any] = {"pool_size": 8, "max_overflow": 56}  # more than a server's threads, 40
_MOST = 64 << 20  # bytes of one value
_LOCK = 0x65766C63  # "evlc": the number by which writers of a PostgreSQL database wait for each other
_DRIVERS = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg", "sqlite": "sqlite"}


class Database:
    """
    An SQLite file, or a PostgreSQL database. For any number of threads; of processes too.

    `read` and `write` are one transaction each. Writers wait for each other, so that what a transaction has read
    still holds when it writes. Both raise StoreError.
    """

    def __init__(self, url: str | URL) -> None:
        try:
            found = make_url(url)
            driver = _DRIVERS.get(found.drivername, found.drivername)
            if driver not in _DRIVERS.values():
                raise NoSuchModuleError
            self._url = found.set(drivername=driver)
            self.name = self._url.set(query={}).render_as_string(hide_password=True)
            """For messages: without what may be a password, as `?password=` is."""
            self._engine = self._made()
        except ImportError:
            raise StoreError(f"{VARIABLE} needs psycopg; run: pip install 'evalcell[postgres]'") from None
        except (ArgumentError, NoSuchModuleError, ValueError):
            raise StoreError(f"{VARIABLE} is no address of PostgreSQL; write postgresql://USER@HOST/DATABASE") from None
        self._writer = self._engine.execution_options(writes=True)

    @property
    def sqlite(self) -> bool:
        """True if it is a file."""
        return self._url.drivername == "sqlite"

    def _made(self) -> Engine:
        if not self.sqlite:
            made = create_engine(
                self._url, **_POOL, pool_pre_ping=True, connect_args={"connect_timeout": 10, "client_encoding": "utf8"}
            )
        else:
            made = create_engine(self._url, **_POOL, connect_args={"timeout": _BUSY})
            event.listen(made, "connect", _prepare)
        event.listen(made, "begin", _begin)
        return made

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a transaction that only reads, all at one moment."""
        with self._errors(), self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Open a transaction that may write; no other one does meanwhile."""
        with self._errors(), self._writer.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (OperationalError, TimeoutError) as error:
            raise StoreError(
                f"{self.name} cannot be used ({_reason(error)}); make room, end what holds it, or see that it runs"
            ) from error
        except SQLAlchemyError as error:
            raise StoreDamagedError(
                f"{self.name} is damaged, or no store of evalcell ({_reason(error)}); move it away"
            ) from error
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"])) or error.title
            what = f"`{printable(field, 60)}` of a {error.title} is none ({first['msg']})"
            raise StoreDamagedError(f"{self.name} is damaged: {what}; move it away") from error
        except (ValueError, TypeError, ArithmeticError, LookupError, RecursionError) as error:
            # What a table holds may be of any type and depth.
            if isinstance(error, InputError):
                raise
            raise StoreDamagedError(f"{self.name} is damaged ({printable(str(error), 100)}); move it away") from error

    def migrate(self) -> None:
        """Bring the tables up to date. Raises StoreError, also for those of a later evalcell."""
        with self.read() as connection:
            if _revision(connection) == HEAD:
                return
        with self.write() as connection:
            found = _revision(connection)
            if found == HEAD:
                return  # another process was faster
            if found is not None and (not found.isdecimal() or int(found) > int(HEAD)):
                raise StoreError(
                    f"{self.name} was written by a later evalcell (schema {printable(found, 20)}); upgrade evalcell"
                )
            if found is None and set(inspect(connection).get_table_names()) & metadata.tables.keys():
                raise StoreError(f"{self.name} is no store of evalcell; move it away, or name another database")
            if found is None:
                _create(connection)
            else:
                upgrade(connection)

    def close(self) -> None:
        """Close all connections. Safe twice."""
        self._engine.dispose()


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Bring the tables to a revision, in the transaction that has begun."""
    try:
        from alembic import command  # here: only an earlier version's store needs it
        from alembic.config import Config
    except ImportError:
        raise StoreError("the store needs Alembic; run: pip install 'evalcell[store]'") from None

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def _create(connection: Connection) -> None:
    """The newest tables, where there are none: to import Alembic takes longer than all else that a new store needs."""
    # A table of revisions without one is there if a person has taken it out.
    revisions.create(connection, checkfirst=True)
    metadata.create_all(connection, checkfirst=False)
    connection.execute(revisions.insert().values(version_num=HEAD))


def _prepare(connection: sqlite3.Connection, _: Any) -> None:
    connection.isolation_level = None  # transactions begin where `_begin` says
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST)
    for pragma in (
        f"busy_timeout = {int(_BUSY * 1000)}",
        "trusted_schema = OFF",
        "journal_mode = WAL",
        "synchronous = NORMAL",
        "foreign_keys = ON",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
    elif writes:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
    else:
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if found is None else str(found)


def _reason(error: SQLAlchemyError) -> str:
    lines = str(getattr(error, "orig", None) or error).strip().splitlines()
    return printable(lines[0] if lines else type(error).__name__, 200)
