"""Find the providers for which there are credentials, by way of the registered sandboxes."""

from __future__ import annotations

from dataclasses import dataclass

from sandboxes.env import all_variables
from sandboxes.errors import SandboxUnavailableError, UnsupportedConfigError
from sandboxes.redaction import Masks
from sandboxes.registry import backends, find
from sandboxes.remote.provider import Provider


@dataclass(frozen=True)
class Account:
    """A provider that is not yet open, and the masks that keep its credentials out of messages."""

    provider: Provider
    masks: Masks


@dataclass(frozen=True)
class Accounts:
    """The accounts found, and for other sandboxes, by name, the reason: credentials missing or incomplete."""

    found: list[Account]
    lacking: dict[str, str]
    unusable: dict[str, str]


def provider_of(name: str) -> type[Provider] | None:
    """The provider of a sandbox's machines, or None if the sandbox runs here. Raises as `registry.find` does."""
    found = getattr(find(name), "provider", None)
    return found if isinstance(found, type) and issubclass(found, Provider) else None


def accounts(env_file: str | None = None, only: str | None = None) -> Accounts:
    """
    The accounts at all providers, or only at that of the sandbox `only`, which must then be usable.

    Raises UnsupportedConfigError if the sandbox is unknown or runs here, or the env-file cannot be read;
    SandboxUnavailableError if `only` has no credentials.
    """
    every = all_variables(env_file)
    if only is not None:
        wanted = provider_of(only)
        if wanted is None:
            raise UnsupportedConfigError(f"the {only} sandbox runs on this machine; choose one of: {_remote_names()}")
        return Accounts([_account(wanted, every)], {}, {})
    found: list[Account] = []
    lacking: dict[str, str] = {}
    unusable: dict[str, str] = {}
    for backend in backends().values():
        wanted = None
        try:
            if wanted := provider_of(backend.name):
                found.append(_account(wanted, every))
        except SandboxUnavailableError as e:
            has_secret = wanted is not None and any(every.get(name) for name in wanted.variables)
            (unusable if has_secret else lacking)[backend.name] = str(e)
    return Accounts(found, lacking, unusable)


def _account(provider: type[Provider], every: dict[str, str]) -> Account:
    return Account(provider(every), Masks(every.get(name, "") for name in provider.variables))


def _remote_names() -> str:
    names = []
    for name in backends():
        try:
            if provider_of(name):
                names.append(name)
        except SandboxUnavailableError:
            continue
    return ", ".join(names)
