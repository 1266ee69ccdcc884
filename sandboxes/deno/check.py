"""Check a script's types with the TypeScript compiler in Deno. The script does not run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from sandboxes.base import MB, Problem
from sandboxes.boxes.launch import GUEST, BoxSetup, Tier
from sandboxes.deno.box_folder import Folder, FolderBox
from sandboxes.deno.launch import OFFLINE, VARIABLES
from sandboxes.errors import SandboxLostError
from sandboxes.guest.supervisor.driver import BoxFailure
from sandboxes.guest.supervisor.pipes import PrintedOutput
from sandboxes.words.text import clean

MEMORY = 1024 * MB
"""Most bytes of the compiler; an ordinary script takes about 200 MB."""

ROOM = 4 << 30
"""Bytes of address space that it may reserve in addition."""

OUTPUT_BYTES = 256 * 1024
"""Bytes kept of its output."""

MOST = 50
"""Most problems reported."""

_SCRIPT = "evaluator.ts"
_OPTIONS = {"compilerOptions": {"strict": True, "noImplicitAny": False, "types": ["./evalcell.d.ts"]}}
_AMBIENT = GUEST / "deno" / "evalcell.d.ts"
_PROBLEM = re.compile(
    r"^TS(?P<number>\d+) \[ERROR\]: *(?P<message>.*)\n(?P<rest>(?:(?!TS\d+ \[ERROR\]).*\n)*?)"
    r" *at (?P<place>file:///\S*/(?P<file>[^/\s]+)):(?P<line>\d+):(?P<column>\d+)",
    re.M,
)
_FAILED = re.compile(r"^error: (?!Type checking failed)(.*)", re.M)


class TypeCheckBox(FolderBox):
    """A box in which one script is checked."""

    def __init__(
        self,
        tier: Tier,
        setup: BoxSetup,
        bwrap: str | None,
        source: str,
        others: Mapping[str, str],
        packages: dict[str, str] | None = None,
    ) -> None:
        """`packages` are those that were asked for, with their versions; `setup.packages` has what is installed."""
        self._others = [name for name in others if name not in (_SCRIPT, "deno.json", "evalcell.d.ts")]
        files = {name: others[name] for name in self._others}
        files |= {_SCRIPT: source, "deno.json": json.dumps(_OPTIONS), "evalcell.d.ts": _AMBIENT.read_text("utf-8")}
        self._packaged = bool(packages) and setup.packages is not None
        if self._packaged:
            files["package.json"] = json.dumps({"dependencies": packages})
            files["deno.json"] = json.dumps(_OPTIONS | {"nodeModulesDir": "manual"})
        folder = Folder(files=files)
        if self._packaged:
            place = "/packages" if tier == "A" else str(setup.packages)
            (folder.path / "node_modules").symlink_to(f"{place}/node_modules")
        super().__init__(tier, setup, bwrap, folder)

    async def problems(self, seconds: float) -> list[Problem]:
        """
        Return the compiler's problems, at most `MOST`.

        Raises:
            SandboxLostError: If it does not start, or takes too long or too much memory.
        """
        printed = PrintedOutput(self.wake, OUTPUT_BYTES, 1 << 62)
        folder = self._plan.boot["pipes"]
        config = f"{folder}/deno.json"
        offline = [one for one in OFFLINE if one != "--no-npm"] if self._packaged else OFFLINE
        arguments = ["deno", "check", "--quiet", "--config", config, *offline, f"{folder}/{_SCRIPT}"]
        try:
            message = {"arguments": arguments, "variables": VARIABLES, "memory": MEMORY + ROOM}
            await self.send(message, (), [printed.write])
            printed.hand_over()
            self.watch(MEMORY)
            until = self.now() + seconds
            while not printed.ended:
                if self.full:
                    raise SandboxLostError(f"the type check needed more than {MEMORY // MB} MB; simplify the types")
                if self.now() > until:
                    raise SandboxLostError(f"the type check took longer than {seconds:g} s; simplify the types")
                await self.wait(until)
                while printed.pull():
                    pass
            if (heard := self.message()) is not None:
                raise SandboxLostError(f"Deno did not start: {heard[0].get('failed')}")
            return parse_problems(printed.cut()[0].decode("utf-8", "replace"), self._others)
        except BoxFailure as e:
            raise SandboxLostError(f"the type check could not be started: {e}") from e
        finally:
            self.unwatch()
            printed.close()
            await self.close()


def parse_problems(output: str, others: Sequence[str] = ()) -> list[Problem]:
    """
    Parse the output of `deno check`; at most `MOST` problems.

    One in another file of the script's, of these names, has its place in its message.
    """
    found = []
    for match in list(_PROBLEM.finditer(output))[:MOST]:
        message = f"{match['message'].strip()} (TS{match['number']})"
        if match["file"] != _SCRIPT:
            file = next((name for name in others if match["place"].endswith(f"/{name}")), match["file"])
            message = f"{file}:{match['line']}:{match['column']}: {message}"
            found.append(Problem(line=1, column=1, message=clean(message, 1000)))
            continue
        found.append(Problem(line=int(match["line"]), column=int(match["column"]), message=clean(message, 1000)))
    if not found and (failed := _FAILED.search(output)):
        found.append(Problem(line=1, column=1, message=clean(failed[1], 1000)))
    return found
