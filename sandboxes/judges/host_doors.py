"""
Hosts as scripts write them: `https://api.openai.com` in a box is the broker's, and no base URL need be set.

The name is one of the box's own loopback, by its file of hosts. The certificate is of an authority that is made for the
sandbox and that nobody trusts outside of its boxes; its key is in memory alone.
"""

from __future__ import annotations

import ipaddress
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from sandboxes.judges.grant import PORT, Judges

if TYPE_CHECKING:
    import ssl

AUTHORITY = "/etc/ssl/evalcell.pem"
"""In a box."""
HOSTS = "/etc/hosts"
_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "DENO_CERT")
"""Where clients look for authorities: Python and httpx, requests, curl, Node, Deno."""


class WrittenHost(NamedTuple):
    """A host on a box's own loopback, at the name and port that a script writes."""

    host: str
    """As it was granted."""
    name: str
    address: str
    port: int
    tls: bool


class WrittenHosts(NamedTuple):
    """What boxes of a sandbox need so that hosts can be had as they are written."""

    doors: tuple[WrittenHost, ...] = ()
    authority: bytes = b""
    """The certificate, as PEM."""
    contexts: tuple[ssl.SSLContext | None, ...] = ()
    """For the doors, in their order."""

    def hosts(self) -> list[tuple[str, ssl.SSLContext | None]]:
        """Return the hosts of the doors, each with what TLS it speaks, if it does."""
        return [(door.host, tls) for door, tls in zip(self.doors, self.contexts, strict=True)]

    def files(self) -> dict[str, bytes]:
        """Return the files of a box by their paths."""
        if not self.doors:
            return {}
        names = dict.fromkeys(f"{door.address} {door.name}" for door in self.doors if door.name != door.address)
        hosts = "\n".join(["127.0.0.1 localhost", *names, ""]).encode()
        return {HOSTS: hosts} | ({AUTHORITY: self.authority} if self.authority else {})

    def variables(self) -> dict[str, str]:
        """Return the variables by which clients trust the authority."""
        return dict.fromkeys(_VARIABLES, AUTHORITY) if self.authority else {}

    def places(self) -> list[str]:
        """Return the names with their ports."""
        return [f"{door.name}:{door.port}" for door in self.doors]


def written_hosts(judges: Judges) -> WrittenHosts:
    """
    Return the doors for the granted hosts; those of TLS only where `cryptography` is installed.

    A host that is an address of another machine has none: it cannot be one of the loopback.
    """
    from sandboxes.judges.addresses import read_host  # here, as below: few scripts ask judges

    doors: list[WrittenHost] = []
    for at, host in enumerate(judges.hosts):
        address = read_host(host.name)
        own = _loopback(address.name)
        if own is None and (":" in address.name or address.name.replace(".", "").isdigit()):
            continue
        if own is not None and PORT <= address.port < PORT + len(judges.hosts):
            continue  # that of a base URL
        place = own or f"127.0.{1 + at // 250}.{1 + at % 250}"
        if any((door.address, door.port) == (place, address.port) for door in doors):
            continue  # such as `localhost` beside 127.0.0.1: a box could not open it twice
        doors.append(WrittenHost(host.name, address.name, place, address.port, address.scheme == "https"))
    authority = None
    if names := [door.name for door in doors if door.tls]:
        try:
            from sandboxes.judges.authority import Authority

            authority = Authority(names)
        except ImportError:
            doors = [door for door in doors if not door.tls]
    contexts = tuple(authority.context(door.name) if authority and door.tls else None for door in doors)
    return WrittenHosts(tuple(doors), authority.certificate if authority else b"", contexts)


def _loopback(name: str) -> str | None:
    if name == "localhost":
        return "127.0.0.1"
    with suppress(ValueError):
        ip = ipaddress.ip_address(name)
        return name if ip.is_loopback and ip.version == 4 else None
    return None
