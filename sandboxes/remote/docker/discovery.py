"""Find the container engine of this machine: what is asked for, the user's own settings, then the usual places."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from sandboxes.errors import SandboxUnavailableError
from sandboxes.remote.docker.api import ApiEngine
from sandboxes.remote.docker.command_line import CommandEngine
from sandboxes.remote.docker.engine import ContainerEngine
from sandboxes.remote.provider import ProviderError, RefusedError

ENGINES = ("docker", "podman")
VARIABLES = ("EVALCELL_ENGINE", "DOCKER_HOST", "CONTAINER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG")

_INSTALL = (
    "install one, as with `apt install podman` or Docker Desktop, and start it; "
    "or choose a sandbox that `evalcell sandboxes` shows as available"
)


def engines(values: Mapping[str, str], name: str | None, runtime: str | None) -> list[ContainerEngine]:
    """
    Return the engines to be tried, in this order; none is asked.

    Args:
        values: The environment, with the env-file over it.
        name: One of ENGINES, or else a choice of `values`.
        runtime: The OCI runtime of containers; None is the engine's own.

    Raises:
        SandboxUnavailableError: There is nothing to try.
    """
    wanted = name or values.get("EVALCELL_ENGINE") or None
    if wanted not in (None, *ENGINES):
        raise SandboxUnavailableError(
            f"EVALCELL_ENGINE is {wanted[:60]!r}, and no engine is called so; set it to docker or podman, or unset it"
        )
    found = [
        engine
        for kind in ENGINES
        if wanted in (None, kind)
        for engine in (_docker(values) if kind == "docker" else _podman(values, runtime))
    ]
    if not found:
        which = wanted or "neither Docker nor Podman"
        raise SandboxUnavailableError(f"{which} is {'not ' if wanted else ''}on this machine; {_INSTALL}")
    return found


async def open_first(candidates: list[ContainerEngine]) -> ContainerEngine:
    """Return the first engine that answers, opened. Raises RefusedError with what each said, and what to do."""
    said: list[str] = []
    for engine in candidates:
        try:
            await engine.open()
        except ProviderError as e:
            said.append(_without_name(str(e)) + _step(engine))
        else:
            return engine
    raise RefusedError(f"docker: no container engine answers: {'; '.join(dict.fromkeys(said))[:600]}")


def _without_name(text: str) -> str:
    return text.removeprefix("docker: ")


def _step(engine: ContainerEngine) -> str:
    """What a person does about an engine that does not answer, where its socket tells."""
    path = engine.address.removeprefix("unix://")
    if engine.address.startswith("docker"):
        return " (run `systemctl start docker`, or start Docker Desktop)"
    if path == engine.address:
        return " (run `podman info`)"
    if not os.access(path, os.R_OK | os.W_OK):
        return (
            f": you may not use {path}; run `sudo usermod -aG docker $USER` and log in again, or use a rootless engine"
        )
    return f" ({path}: start it, as with `systemctl start docker`)"


def _docker(values: Mapping[str, str]) -> Iterator[ContainerEngine]:
    host = values.get("DOCKER_HOST") or _of_context(values)
    home, run = Path.home(), values.get("XDG_RUNTIME_DIR")
    if host:
        if path := _socket(host):
            yield ApiEngine(path)
        elif program := shutil.which("docker"):
            yield CommandEngine("docker", program, ("--host", host), place=_plain(host))
        else:
            raise SandboxUnavailableError(
                f"DOCKER_HOST is {_plain(host)}, which only the program docker reaches, and that is not installed; "
                "install it, or set DOCKER_HOST to unix:///PATH"
            )
        return
    places: list[str | Path] = [
        "/var/run/docker.sock",
        home / ".docker/run/docker.sock",
        home / ".docker/desktop/docker.sock",
    ]
    places += [home / ".colima/default/docker.sock", home / ".colima/docker.sock", home / ".rd/docker.sock"]
    places += [home / ".orbstack/run/docker.sock"] + ([Path(run) / "docker.sock"] if run else [])
    there = [str(place) for place in places if Path(place).exists()]
    yield from map(ApiEngine, dict.fromkeys(os.path.realpath(place) for place in there))
    if program := shutil.which("docker"):
        yield CommandEngine("docker", program)


def _podman(values: Mapping[str, str], runtime: str | None) -> Iterator[ContainerEngine]:
    program, host, run = shutil.which("podman"), values.get("CONTAINER_HOST"), values.get("XDG_RUNTIME_DIR")
    if runtime is None:  # Podman's API cannot choose one
        places = [_socket(host)] if host else [f"{run}/podman/podman.sock" if run else "", "/run/podman/podman.sock"]
        yield from (ApiEngine(place) for place in places if place and (host or os.access(place, os.R_OK | os.W_OK)))
    if program:
        options = ("--runtime", runtime) if runtime else ()
        remote = ("--url", host) if host and not _socket(host) else ()
        yield CommandEngine("podman", program, (*options, *remote), place=_plain(host) if host else "")


def _socket(host: str) -> str | None:
    return host.removeprefix("unix://") if host.startswith("unix:///") else None


def _plain(host: str) -> str:
    """An address without a user's name and a password."""
    kind, _, rest = host.partition("://")
    return f"{kind}://{rest.rpartition('@')[2]}"[:120]


def _of_context(values: Mapping[str, str]) -> str | None:
    """The address of the context that the user of `docker context use` has chosen, if it is not the usual one."""
    folder = Path(values.get("DOCKER_CONFIG") or Path.home() / ".docker")
    with suppress(OSError, ValueError, AttributeError, KeyError, TypeError):
        name = values.get("DOCKER_CONTEXT") or _read(folder / "config.json")["currentContext"]
        if name and name != "default":
            place = folder / "contexts/meta" / hashlib.sha256(str(name).encode()).hexdigest() / "meta.json"
            return str(_read(place)["Endpoints"]["docker"]["Host"]) or None
    return None


def _read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))
