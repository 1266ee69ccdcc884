"""What a run in parts cannot do."""

from __future__ import annotations

from collections.abc import Sequence

from runner.core.errors import InputError
from runner.engine.request import Prepared
from runner.results.output.folder import is_folder


def refuse(prepared: Prepared, files: Sequence[str], *, save: bool) -> None:
    """Raise InputError for what a run in parts cannot do."""
    if len(files) != 1 or not is_folder(files[0]):
        raise InputError("a dataset of several files is scored in parts, which go to one folder: add the output run/")
    if prepared.evaluator.aggregate is not None:
        raise InputError(
            "the script has `aggregate`, which needs the results of all rows in one place, and a run in parts leaves "
            "each part where it is: join the files to one, or take `aggregate` out"
        )
    if save:
        raise InputError("a run in parts stays in its folder; leave save out")
