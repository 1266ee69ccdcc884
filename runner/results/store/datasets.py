"""Datasets: files by their content, with names. And presets: sandbox configs with names."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from sqlalchemy import Connection, delete, insert, select

from runner.core.errors import InputError
from runner.core.text import printable, rows_of, suggestion
from runner.results.store.base import StorePart, fetch_page, now, refuse_full, refuse_used
from runner.results.store.errors import NameTakenError, NotStoredError
from runner.results.store.names import dataset_name, is_digest, split_file_name, validate_name
from runner.results.store.schema import datasets, presets, runs
from runner.results.store.types import DatasetInfo, Page, Preset
from sandboxes.base import SandboxConfig
from sandboxes.words.wording import Setting

_COLUMNS = 1000


class Datasets(StorePart):
    """The datasets of the store. All raises StoreError."""

    def add_dataset(
        self,
        file: Path | BinaryIO,
        *,
        name: str,
        suffix: str,
        rows: int | None = None,
        columns: Sequence[str] = (),
        another: bool = False,
    ) -> DatasetInfo:
        """
        Copy the file into the store. The same content under the same name is that dataset again.

        Args:
            file: The dataset.
            name: Its name in the store.
            suffix: It tells the format.
            rows: How many the caller has counted.
            columns: Those that the caller has seen.
            another: Name it `NAME-2` if the name stands for another content.

        Raises:
            NameTakenError: The name stands for another content.
            InputError: The name is none.
        """
        dataset_name(name)
        if split_file_name(f"x{suffix}") != ("x", suffix):
            raise InputError(f"suffix {printable(suffix, 40)!r}: it is that of no dataset, such as .jsonl or .csv.gz")
        with self._files.written(file, suffix) as new, self._database.write() as connection:
            for attempt in range(1, 10_000):
                wanted = name if attempt == 1 else f"{name[:58]}-{attempt}"
                there = _dataset(connection, datasets.c.name == wanted)
                if there is None:
                    break
                if (there.digest, there.suffix) == (new.digest, suffix):
                    new.keep()  # it may have been lost
                    return there
                if not another:
                    size = f"{there.bytes:,} bytes" if there.rows is None else rows_of(there.rows)
                    raise NameTakenError(
                        f"the dataset {name} has another content ({size}); give this one another {Setting('name')}, "
                        "or delete that one"
                    )
            refuse_full(connection, new.bytes)
            new.keep()
            made = DatasetInfo(
                name=wanted,
                digest=new.digest,
                suffix=suffix,
                bytes=new.bytes,
                rows=rows,
                columns=tuple(columns[:_COLUMNS]),
                created=now(),
            )
            listed = json.dumps(made.columns, ensure_ascii=False)
            values = {name: value for name, value in made if name != "notes"}
            connection.execute(insert(datasets).values(values | {"columns": listed}))
            return made

    def datasets(self, after: str | None = None, count: int = 50) -> Page[DatasetInfo]:
        """Return the datasets by name."""
        with self._database.read() as connection:
            return fetch_page(connection, select(datasets), datasets.c.name, after, count, _info)

    def dataset(self, name: str) -> DatasetInfo:
        """Return the dataset of a name or a digest. Raises NotStoredError."""
        with self._database.read() as connection:
            return find_dataset(connection, name)

    def dataset_path(self, info: DatasetInfo) -> Path:
        """Return its file, which ends with its suffix. Raises NotStoredError if it is gone."""
        path = self._files.path(f"{info.digest}{info.suffix}")
        if not path.is_file():
            raise NotStoredError(
                f"the file of the dataset {info.name} is gone from {path.parent}; delete it, and add it again"
            )
        return path

    def delete_dataset(self, name: str, *, force: bool = False) -> int:
        """
        Delete a dataset; the bytes that the disk gets back: none if another one has the same content.

        Raises:
            NotStoredError, InUseError: As `delete_evaluator`.
        """
        with self._database.write() as connection:
            info = find_dataset(connection, name)
            of = [runs.c.digest == info.digest]
            twice = select(datasets.c.name).where(datasets.c.digest == info.digest, datasets.c.name != info.name)
            if connection.execute(twice.limit(1)).first() is not None:
                of.append(runs.c.dataset == info.name)
            refuse_used(connection, info.name, *of, force=force)
            connection.execute(delete(datasets).where(datasets.c.name == info.name))
        return self._free([f"{info.digest}{info.suffix}"])


class Presets(StorePart):
    """The sandbox configs of the store. All raises StoreError."""

    def set_preset(self, name: str, config: SandboxConfig) -> Preset:
        """Keep a config under the name; one that was there is replaced. Raises InputError for what is no name."""
        made = Preset(name=validate_name(name), config=config, created=now())
        values = {"name": name, "config": config.model_dump_json(exclude_unset=True), "created": made.created}
        with self._database.write() as connection:
            connection.execute(delete(presets).where(presets.c.name == name))
            connection.execute(insert(presets).values(values))
        return made

    def presets(self, after: str | None = None, count: int = 50) -> Page[Preset]:
        """Return the presets by name."""
        with self._database.read() as connection:
            return fetch_page(connection, select(presets), presets.c.name, after, count, _preset)

    def preset(self, name: str) -> Preset:
        """Return the preset of a name. Raises NotStoredError."""
        with self._database.read() as connection:
            return find_preset(connection, name)

    def delete_preset(self, name: str) -> None:
        """Delete a preset. Runs keep the config that they had. Raises NotStoredError."""
        with self._database.write() as connection:
            find_preset(connection, name)
            connection.execute(delete(presets).where(presets.c.name == name))


def find_dataset(connection: Connection, name: str) -> DatasetInfo:
    """Return the dataset of a name or a digest. Raises NotStoredError."""
    # A digest first: an earlier evalcell took it for a name, too.
    if is_digest(name) and (found := _dataset(connection, datasets.c.digest == name)):
        return found
    if found := _dataset(connection, datasets.c.name == name):
        return found
    near = suggestion(name, connection.execute(select(datasets.c.name).limit(1000)).scalars())
    raise NotStoredError(
        f"the store has no dataset {printable(name, 64)!r}{near or '; `evalcell datasets` lists them'}"
    )


def exact_dataset(connection: Connection, name: str, digest: str | None) -> DatasetInfo:
    """Return the dataset of this name, with this content. Raises NotStoredError."""
    found = _dataset(connection, datasets.c.name == name, datasets.c.digest == digest)
    if found is None:
        raise NotStoredError(f"the dataset {printable(name, 64)} of the run is gone, or another one; start a new run")
    return found


def find_preset(connection: Connection, name: str) -> Preset:
    """Return the preset of a name. Raises NotStoredError."""
    row = connection.execute(select(presets).where(presets.c.name == name)).first()
    if row is None:
        near = suggestion(name, connection.execute(select(presets.c.name).limit(1000)).scalars())
        raise NotStoredError(f"the store has no sandbox preset {printable(name, 64)!r}{near}")
    return _preset(row)


def _dataset(connection: Connection, *conditions: Any) -> DatasetInfo | None:
    row = connection.execute(select(datasets).where(*conditions).order_by(datasets.c.name).limit(1)).first()
    return None if row is None else _info(row)


def _info(row: Any) -> DatasetInfo:
    return DatasetInfo(**dict(row._mapping) | {"columns": json.loads(row.columns)})


def _preset(row: Any) -> Preset:
    config = SandboxConfig.model_validate_json(row.config)
    return Preset(name=row.name, config=config, created=row.created)
