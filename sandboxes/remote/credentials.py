"""The providers that there are credentials for, found through the sandboxes that are registered."""

from __future__ import annotations

from dataclasses import dataclass

from sandboxes.env import values
from sandboxes.errors import SandboxUnavailableError, UnsupportedConfigError
from sandboxes.redaction import Masks
from sandboxes.registry import backends, find
from sandboxes.remote.provider import Provider


@dataclass(frozen=True)
class Account:
    """A provider that is not opened yet, and what takes its credentials out of messages."""

    provider: Provider
    masks: Masks


@dataclass(frozen=True)
class Accounts:
    """What can be asked, and by the sandbox's name why the others cannot be: nothing is set, or not all of it."""

    found: list[Account]
    lacking: dict[str, str]
    unusable: dict[str, str]


def remote(name: str) -> type[Provider] | None:
    """
    The provider whose machines a sandbox runs on. None: it runs on this machine.

    Raises as `registry.find` does.
    """
    found = getattr(find(name), "provider", None)
    return found if isinstance(found, type) and issubclass(found, Provider) else None


def accounts(env_file: str | None = None, only: str | None = None) -> Accounts:
    """
    The accounts at all providers, or at `only` one, which must be usable.

    Raises UnsupportedConfigError for a sandbox that is unknown or runs here, and for an env-file that cannot be read;
    SandboxUnavailableError for a named one without credentials.
    """
    every = values(env_file)
    if only is not None:
        wanted = remote(only)
        if wanted is None:
            raise UnsupportedConfigError(f"the {only} sandbox runs on this machine; choose one of: {_listed()}")
        return Accounts([_account(wanted, every)], {}, {})
    found: list[Account] = []
    lacking: dict[str, str] = {}
    unusable: dict[str, str] = {}
    for backend in backends().values():
        wanted = None
        try:
            if wanted := remote(backend.name):
                found.append(_account(wanted, every))
        except SandboxUnavailableError as e:
            has_secret = wanted is not None and any(every.get(name) for name in wanted.variables)
            (unusable if has_secret else lacking)[backend.name] = str(e)
    return Accounts(found, lacking, unusable)


def _account(provider: type[Provider], every: dict[str, str]) -> Account:
    return Account(provider(every), Masks(every.get(name, "") for name in provider.variables))


def _listed() -> str:
    names = []
    for name in backends():
        try:
            if remote(name):
                names.append(name)
        except SandboxUnavailableError:
            continue
    return ", ".join(names)
