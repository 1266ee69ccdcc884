"""The modules that a script may import: those of the standard library, and those of installed packages."""

from __future__ import annotations

import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions

from runner.core.errors import EvaluatorError
from runner.core.text import describe, list_names, printable

PACKAGES = "sandbox=SandboxConfig(packages=[…])"


def package_of(module: str, user: str) -> str | None:
    """
    Return the package to install for a module; None for one of the standard library.

    `user` says in messages who imports it.

    Raises:
        EvaluatorError: For a module that no index has for sure.
    """
    top = module.split(".")[0]
    if not top:
        raise EvaluatorError(
            f"{user} has a relative import, which a script cannot do; copy what it needs into the function's file"
        )
    if top in sys.stdlib_module_names:
        return None
    found = sorted(set(_distributions().get(top, ())))
    if not found:
        raise EvaluatorError(
            f"{user} needs the module {describe(top, 60)}, which is a file of yours and no installed package; "
            "define what it needs in the function's own file"
        )
    if len(found) > 1:
        raise EvaluatorError(
            f"{user} needs the module {describe(top, 60)}, which comes from several packages, {list_names(found)}; "
            f"name those that it needs: {PACKAGES}"
        )
    name = found[0]
    if _is_local(name):
        raise EvaluatorError(
            f"{user} needs the module {describe(top, 60)} of the package {printable(name, 60)}, which was installed "
            "from a folder or an address, not from an index; define what it needs in the function's own file"
        )
    return name


@cache
def _distributions() -> dict[str, list[str]]:
    return {top: list(names) for top, names in packages_distributions().items()}


def _is_local(name: str) -> bool:
    try:
        return distribution(name).read_text("direct_url.json") is not None
    except PackageNotFoundError:
        return True
