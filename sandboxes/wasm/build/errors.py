"""Errors of a failed build of the guest."""

from enum import StrEnum

from .pins import pinned_version


class GuestBuildError(Exception):
    """The guest could not be built; the text names the step and what to do."""


class WasmFormatError(GuestBuildError):
    """Bytes that are not the WebAssembly this build can read."""


class Assertion(StrEnum):
    """What the sandbox relies on; docs/building.md says what each one protects."""

    EVERY_MODULE_INSTANTIATED_ONCE = "every-module-instantiated-once"
    EVERY_WASI_CALL_IS_STUBBED = "every-wasi-call-is-stubbed"
    EVERY_OVERRIDE_FOUND = "every-override-found"
    ONE_MEMORY = "one-memory"
    MEMORY_HAS_NO_MAXIMUM = "memory-has-no-maximum"
    DATA_SEGMENTS_ARE_CONSTANT = "data-segments-are-active-and-constant"
    BASE_IMAGE_FITS = "base-image-within-initial-memory"
    NO_START_FUNCTION = "no-start-function"
    ONLY_IMPORT_IS_MEMORY = "only-import-is-memory"
    KNOWN_EXPORTS = "exports-are-the-known-ten"
    KNOWN_GLOBALS = "mutable-globals-are-the-known-five"
    NO_TABLE_INSTRUCTIONS = "no-table-instructions"
    MODULES_ARE_VALID = "modules-are-valid"
    LASTING_OBJECTS_ARE_KNOWN = "lasting-objects-are-known"
    GUEST_PYTHON_IS_KNOWN = "guest-python-is-known"


class GuestAssertionError(GuestBuildError):
    """Something that the sandbox's isolation relies on no longer holds, so nothing may be shipped."""

    def __init__(self, assertion: Assertion, found: str) -> None:
        self.assertion = assertion
        super().__init__(
            f"assertion {assertion} failed: {found}; "
            f"componentize-py {pinned_version('componentize-py')} may have changed its layout: see docs/building.md"
        )


def require(condition: bool, assertion: Assertion, found: str) -> None:
    """Raise GuestAssertionError unless `condition` holds; `found` says what was found instead."""
    if not condition:
        raise GuestAssertionError(assertion, found)
