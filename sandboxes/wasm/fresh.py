"""Restore the state just after loading for every call: with new instances, or by undoing an instance's writes."""

from __future__ import annotations

from abc import ABC, abstractmethod

from sandboxes.wasm.engine import Engine
from sandboxes.wasm.image import Image
from sandboxes.wasm.instance import Instance
from sandboxes.wasm.reset import Reset
from sandboxes.wasm.restore import PageMap

MOST_PAGES = 2048
"""An instance with more written pages is dropped: a new one costs less than copying them after each call."""


class Fresh(ABC):
    """Hands out instances that equal the image of a loaded script's memory, byte for byte."""

    def __init__(self, engine: Engine, image: Image) -> None:
        self.engine, self.image = engine, image

    @abstractmethod
    def take(self, memory: int) -> Instance:
        """Return an instance that may grow to `memory` bytes. Raises GuestTrap if the image alone is larger."""

    @abstractmethod
    def give_back(self, instance: Instance, whole: bool) -> None:
        """Return an instance; `whole`: its last call ended normally, so that it may be used again."""

    def close(self) -> None:
        self.image.close()


class NewInstances(Fresh):
    """Works anywhere: the image is mapped copy-on-write each time."""

    def take(self, memory: int) -> Instance:
        return Instance(self.engine, self.image, memory)

    def give_back(self, instance: Instance, whole: bool) -> None:
        instance.close()


class RestoredPages(Fresh):
    """
    Linux: keeps one instance and copies its written pages back from one that never runs.

    Raises OSError if the page map does not show what was written: some kernels only pretend to have one. The image can
    then still be used.
    """

    def __init__(self, engine: Engine, image: Image, pages: PageMap) -> None:
        super().__init__(engine, image)
        self._pages = pages
        self._pristine = Instance(engine, image, image.size)
        self._spare: Instance | None = None
        try:
            self._prove()
        except BaseException:
            self._release()
            raise

    def _prove(self) -> None:
        """Write to an instance, check that it is restored, and look whether the writes were counted as page faults."""
        probe = Instance(self.engine, self.image, self.image.size)
        places = range(0, self.image.size, self.image.size // 8)
        try:
            before = [probe.read(place, 8) for place in places]
            counted = self._pages.faults()
            for place, content in zip(places, before, strict=True):
                probe.write(place, bytes(byte ^ 0xFF for byte in content))
            counted = self._pages.faults() - counted
            restored = self._pages.restore(probe.base, self._pristine.base, probe.size)
            after = [probe.read(place, 8) for place in places]
        finally:
            probe.close()
        if before != after or restored > MOST_PAGES:
            raise OSError("the page map does not show what was written")
        self._pages.trusts_faults = counted >= len(places)

    def take(self, memory: int) -> Instance:
        if self._spare and self._spare.limit == memory:
            instance, self._spare = self._spare, None
            return instance
        self._drop()
        return Instance(self.engine, self.image, memory)

    def give_back(self, instance: Instance, whole: bool) -> None:
        if whole and instance.size == self.image.size and self._restore(instance) <= MOST_PAGES:
            self._drop()
            self._spare = instance
        else:
            instance.close()

    def _restore(self, instance: Instance) -> int:
        instance.set("__stack_pointer", self._pristine.stack_pointer)
        return self._pages.restore(instance.base, self._pristine.base, self.image.size)

    def _drop(self) -> None:
        if self._spare:
            self._spare.close()
            self._spare = None

    def _release(self) -> None:
        self._drop()
        self._pristine.close()
        self._pages.close()

    def close(self) -> None:
        self._release()
        super().close()


def fresh(engine: Engine, image: Image, reset: Reset) -> Fresh:
    """
    Return the way to fresh instances.

    Raises:
        OSError: For `restore` without a page map; `auto` then makes new instances.
    """
    if reset == "instance":
        return NewInstances(engine, image)
    try:
        pages = PageMap()
    except OSError:
        if reset == "restore":
            raise
        return NewInstances(engine, image)
    try:
        return RestoredPages(engine, image, pages)
    except OSError:
        return NewInstances(engine, image)
