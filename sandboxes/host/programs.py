"""Programs of this machine that are started by name: never one that lies in the folder that evalcell is called from."""

from __future__ import annotations

import os


def find_program(name: str) -> str | None:
    """
    Return the absolute path of a program in the folders of PATH that are absolute; `.` and Windows' own folder are not.
    """
    import shutil  # here: it takes long, and who has the program need not look for it

    folders = [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(folder)]
    found = shutil.which(name, path=os.pathsep.join(folders) or os.devnull)
    return found if found is not None and os.path.isabs(found) else None
