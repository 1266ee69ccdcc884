"""Find the providers for which there are credentials, by way of the registered sandboxes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sandboxes.errors import SandboxUnavailableError, UnsupportedConfigError
from sandboxes.host.env import file_variables
from sandboxes.registry import backends, find
from sandboxes.remote.provider import Provider
from sandboxes.words.redaction import Masks
from sandboxes.words.wording import Message, Setting


@dataclass(frozen=True)
class Account:
    """A provider that is not yet open, and the masks that keep its credentials out of messages."""

    provider: Provider
    masks: Masks


@dataclass(frozen=True)
class Accounts:
    """The accounts that can be used, and for other sandboxes, by name, why: credentials missing or incomplete."""

    usable: list[Account]
    lacking: dict[str, str]
    unusable: dict[str, str]


class Variables(Mapping[str, str]):
    """
    The environment with the env-file over it, as a provider reads it.

    Where a credential is of the environment, to read what the file says of anything but credentials and `settings`
    raises UnsupportedConfigError: it could be the address that the credential is sent to.
    """

    def __init__(self, provider: type[Provider], env_file: str | None) -> None:
        in_file = {} if env_file is None else file_variables(env_file)
        self._every, self._file = {**os.environ, **in_file}, env_file
        differs = {name for name, value in in_file.items() if value != os.environ.get(name)}
        self.own = [name for name in provider.variables if self._every.get(name) and name not in differs]
        """The credentials that are of the environment."""
        self._refused = differs - {*provider.variables, *provider.settings} if self.own else set[str]()

    def __getitem__(self, name: str) -> str:
        if name in self._refused:
            raise UnsupportedConfigError(
                Message(
                    Setting("sandbox.env_file", self._file),
                    f" sets {name}, and {self.own[0]} is of your environment: a file does not say where your key goes; "
                    f"put both into the file, or take {name} out of it and run: export {name}=…",
                )
            )
        return self._every[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._every)

    def __len__(self) -> int:
        return len(self._every)

    def masks(self, provider: type[Provider]) -> list[str]:
        """Return the values of the credentials."""
        return [self._every.get(name, "") for name in provider.variables]


def provider_of(name: str) -> type[Provider] | None:
    """Return the provider of a sandbox's machines, or None if the sandbox runs here. Raises as `registry.find` does."""
    found = getattr(find(name), "provider", None)
    return found if isinstance(found, type) and issubclass(found, Provider) else None


def accounts(env_file: str | None = None, only: str | None = None) -> Accounts:
    """
    Return the accounts at all providers, or only at that of the sandbox `only`, which must then be usable.

    Raises:
        UnsupportedConfigError: If the sandbox is unknown or runs here, or the env-file cannot be read.
        SandboxUnavailableError: If `only` has no credentials.
    """
    if only is not None:
        wanted = provider_of(only)
        if wanted is None:
            raise UnsupportedConfigError(f"the {only} sandbox runs on this machine; choose one of: {_remote_names()}")
        return Accounts([_account(wanted, env_file)], {}, {})
    if env_file is not None:
        file_variables(env_file)  # what cannot be read is told once
    found: list[Account] = []
    lacking: dict[str, str] = {}
    unusable: dict[str, str] = {}
    for backend in backends().values():
        wanted = None
        try:
            if wanted := provider_of(backend.name):
                found.append(_account(wanted, env_file))
        except UnsupportedConfigError as e:
            unusable[backend.name] = str(e)
        except SandboxUnavailableError as e:
            has_secret = wanted is not None and any(Variables(wanted, env_file).masks(wanted))
            (unusable if has_secret else lacking)[backend.name] = str(e)
    return Accounts(found, lacking, unusable)


def _account(provider: type[Provider], env_file: str | None) -> Account:
    values = Variables(provider, env_file)
    return Account(provider(values), Masks(values.masks(provider)))


def _remote_names() -> str:
    names = []
    for name in backends():
        try:
            if provider_of(name):
                names.append(name)
        except SandboxUnavailableError:
            continue
    return ", ".join(names)
