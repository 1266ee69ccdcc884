"""Datasets and presets of the service."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from anyio import to_thread

from runner.core.errors import DatasetError
from runner.inputs.datasets.unnest import write_as_utf8, write_rows
from runner.results.store.names import parted
from runner.results.store.types import DatasetInfo, Preset
from runner.server.service.errors import ServiceError
from runner.server.service.part import Part, threaded
from runner.server.service.rows import looked_at
from sandboxes.base import SandboxConfig
from sandboxes.wording import Setting

_OWN_NAME = re.compile(r"(?<=[ \"'])rows\.(?=\w)")
_AT_ONCE = 1 << 20
"""Bytes that are gathered before they go to the disk."""


class Datasets(Part):
    """What can be done with datasets, and with sandbox configs that have a name."""

    async def add_dataset(
        self,
        stream: AsyncIterator[bytes],
        file_name: str,
        *,
        name: str | None = None,
        another: bool = False,
        rows: str | None = None,
        encoding: str | None = None,
    ) -> DatasetInfo:
        """
        Keep a file as it comes. It is looked at before it is accepted; nothing of what is refused stays.

        `another`: a name that is taken becomes `NAME-2`. `rows` is the place of the rows in a JSON file that is no
        array: they are kept as JSON Lines. A text file of another `encoding` is kept as UTF-8. Raises ServiceError for
        one that is too large, DatasetError
        for one without a row, InputError for what is no name, NameTakenError, and StoreFullError.
        """
        made, suffix = parted(file_name)
        with _room():
            folder = Path(await threaded(tempfile.mkdtemp, prefix="upload-", dir=self.incoming))
        sent = path = folder / f"rows{suffix}"
        try:
            with _room():
                await self._written(stream, path)
            try:
                if encoding is not None:
                    path = folder / f"as-utf-8{suffix}"
                    with _room():
                        await self._slowly(write_as_utf8, sent, encoding, path)
                    sent.unlink()
                    path.rename(sent)
                    path = sent
                if rows is not None:
                    path, suffix = folder / "rows-there.jsonl", ".jsonl"
                    with _room():
                        await self._slowly(write_rows, sent, rows, path)
                count, columns, notes = await self._slowly(looked_at, path)
            except DatasetError as error:
                raise DatasetError(_of_sender(str(error), sent, file_name, made)) from None
            info = await to_thread.run_sync(
                lambda: self.store.add_dataset(
                    path, name=name or made, suffix=suffix, rows=count, columns=columns, another=another
                )
            )
            said = tuple(_of_sender(note, sent, file_name, made) for note in notes)
            return info.model_copy(update={"notes": said})
        finally:
            for left in (sent, path, folder):
                with suppress(OSError):
                    left.rmdir() if left is folder else left.unlink()

    async def _written(self, stream: AsyncIterator[bytes], path: Path) -> None:
        most, size = self.settings.dataset_bytes, 0
        gathered = bytearray()
        file = await threaded(_created, path)
        try:
            async for part in stream:
                size += len(part)
                if size > most:
                    raise ServiceError("too-large", f"the dataset is larger than {most:,} bytes; score a part of it")
                gathered += part
                if len(gathered) >= _AT_ONCE:
                    await to_thread.run_sync(file.write, bytes(gathered))
                    gathered.clear()
            await to_thread.run_sync(file.write, bytes(gathered))
        finally:
            file.close()
        if not size:
            raise DatasetError("the body is empty; send the file as it is")

    async def set_preset(self, name: str, config: SandboxConfig) -> Preset:
        """Keep a sandbox config under a name. Raises ServiceError for one that this server does not allow."""
        self.settings.refuse(config)
        return await threaded(self.store.set_preset, name, config)


def _of_sender(words: str, path: Path, file_name: str, name: str) -> str:
    """What was said of the file that was written here, as its sender can use it: only they can change the file."""
    words = words.replace(f"{path.parent}/", "").replace(path.name, file_name)
    words = _OWN_NAME.sub(lambda _: f"{name}.", words)
    encoding = re.escape(str(Setting("encoding", "_"))).replace("_", r"[\w-]*")
    return re.sub(f", or give its encoding, such as {encoding}", "", words)


@contextmanager
def _room() -> Iterator[None]:
    """Say what the disk says. Raises ServiceError."""
    try:
        yield
    except OSError as error:
        why = f"the file cannot be written to the server's disk ({error.strerror}); make room there, and send it again"
        raise ServiceError("write", why) from None


def _created(path: Path) -> BinaryIO:
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=0)
