"""A wheel of this machine's own Deno, so that no test has to fetch 42 MB for each machine that it makes."""

from __future__ import annotations

import base64
import functools
import hashlib
import os
import zipfile
from importlib import metadata
from pathlib import Path


def bring_deno() -> None:
    """
    Have pip find it, here and in machines of servers that are started from now on.

    A server that was started before finds the index's own wheel, which is not the one that is resolved here.
    """
    known = os.environ.get("PIP_FIND_LINKS", "").split()
    if (folder := str(_made())) not in known:
        os.environ["PIP_FIND_LINKS"] = " ".join([*known, folder])


@functools.cache
def _made() -> Path:
    """The folder with the wheel, which is made once, and kept for later runs."""
    folder = Path("/var/tmp", f"evalcell-wheels-{os.getuid()}")  # machines have a /tmp of their own
    folder.mkdir(mode=0o755, exist_ok=True)
    deno = metadata.distribution("deno")
    tag = str(deno.read_text("WHEEL")).partition("Tag: ")[2].split()[0]
    # The 1 has it go before the index's own.
    path = folder / f"deno-{deno.version}-1-{tag}.whl"
    if not path.exists():
        made = path.with_suffix(f".{os.getpid()}")
        _write(made, deno)
        made.rename(path)
    return folder


def _write(path: Path, deno: metadata.Distribution) -> None:
    """What pip installed, put together again; not compressed, for then it is installed in no time."""
    name, records = f"deno-{deno.version}", []
    with zipfile.ZipFile(path, "w") as wheel:
        for file in deno.files or ():
            if file.suffix == ".pyc" or file.name in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json"):
                continue
            place = f"{name}.data/scripts/{file.name}" if ".." in file.parts else str(file)
            content = Path(str(file.locate())).read_bytes()
            about = zipfile.ZipInfo(place)
            about.external_attr = (0o100755 if ".." in file.parts else 0o100644) << 16
            wheel.writestr(about, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
            records.append(f"{place},sha256={digest},{len(content)}\n")
        record = f"{name}.dist-info/RECORD"
        wheel.writestr(record, "".join([*records, f"{record},,\n"]))
