"""The properties of a Python that decide which packages fit it. Another Python runs this file as a script."""

from __future__ import annotations

import json
import os
import platform
import sys
import sysconfig


def facts() -> dict[str, str]:
    """Return the properties of the Python that runs this."""
    return {
        "tag": str(sys.implementation.cache_tag) + getattr(sys, "abiflags", ""),
        "name": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": sysconfig.get_platform(),
        "libc": " ".join(platform.libc_ver()),
        "path": os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable),
    }


if __name__ == "__main__":
    print(json.dumps(facts()))
