"""What on this machine would keep evalcell from working, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from runner.cli.doctor import folders, machine, sandboxes
from runner.cli.doctor.finding import Finding as Finding
from runner.cli.doctor.finding import problem
from sandboxes.base import Model

_LOOKS: tuple[Callable[[], Iterable[Finding]], ...] = (
    machine.versions,
    machine.python,
    machine.system,
    machine.namespaces,
    machine.limits,
    machine.clocks,
    folders.home,
    folders.cache,
    folders.state,
    folders.temporary,
    sandboxes.here,
    sandboxes.providers,
)


class Diagnosis(Model):
    """All findings."""

    findings: tuple[Finding, ...]

    @property
    def works(self) -> bool:
        """True if a sandbox of this machine ran a script."""
        return any(one.name in sandboxes.HERE and one.state == "ok" for one in self.findings)


def diagnose(each: Callable[[Finding], object] = lambda finding: None) -> Diagnosis:
    """
    Look at this machine, and run a short script in each of its sandboxes.

    `each` is called with each finding as it comes. Asks no provider and changes nothing, but that the folders of cache
    and state are made and the wasm sandbox is compiled where it was not yet. Raises nothing.
    """
    findings = []
    for finding in _all():
        findings.append(finding)
        each(finding)
    return Diagnosis(findings=tuple(findings))


def _all() -> Iterator[Finding]:
    for look in _LOOKS:
        try:
            yield from look()
        except Exception as error:  # one that cannot be looked at hides no other
            name = look.__name__
            yield problem(
                name, f"could not be looked at ({type(error).__name__}: {error})", "report it with all findings"
            )
