"""
Runs a program under a kernel that refuses much, as some machines do: `python refusing.py WHAT... -- PROGRAM`.

`namespaces`, `landlock`, `pidfd`, `seccomp` (further filters) and `subreaper` (adopting orphans, which gVisor could not
before July 2023) can be refused. Standard library only.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys

_NUMBERS = {
    "x86_64": {"unshare": 272, "mount": 165, "prctl": 157},
    "aarch64": {"unshare": 97, "mount": 40, "prctl": 167},
}
_LANDLOCK, _PIDFD_OPEN = (444, 445, 446), 434
_EPERM, _EINVAL, _ENOSYS = 1, 22, 38

_Code = list[tuple[int, int, int, int]]
_NUMBER: _Code = [(0x20, 0, 0, 0)]
_FIRST_ARGUMENT: _Code = [(0x20, 0, 0, 16)]
_ALLOWED: _Code = [(0x06, 0, 0, 0x7FFF_0000)]


def _refused(error: int) -> _Code:
    return [(0x06, 0, 0, 0x0005_0000 | error)]


def _when(values: tuple[int, ...], then: _Code) -> _Code:
    """One after the other, past which it goes on."""
    return [step for value in values for step in ((0x15, 0, len(then), value), *then)]


def program(what: list[str]) -> bytes:
    numbers = _NUMBERS[platform.machine()]
    code = list(_NUMBER)
    if "namespaces" in what:
        code += _when((numbers["unshare"], numbers["mount"]), _refused(_EPERM))
    if "landlock" in what:
        code += _when(_LANDLOCK, _refused(_ENOSYS))
    if "pidfd" in what:
        code += _when((_PIDFD_OPEN,), _refused(_ENOSYS))
    # PR_GET_SECCOMP and PR_SET_SECCOMP; PR_SET_CHILD_SUBREAPER
    options = ((21, 22) if "seccomp" in what else ()) + ((36,) if "subreaper" in what else ())
    if options:
        code += _when((numbers["prctl"],), _FIRST_ARGUMENT + _when(options, _refused(_EINVAL)) + _ALLOWED)
    return b"".join(struct.pack("<HBBI", *step) for step in code + _ALLOWED)


def main() -> None:
    end = sys.argv.index("--")
    made = program(sys.argv[1:end])
    libc = ctypes.CDLL(None, use_errno=True)
    kept = ctypes.create_string_buffer(made, len(made))
    filters = ctypes.create_string_buffer(struct.pack("HP", len(made) // 8, ctypes.addressof(kept)))
    libc.prctl(38, *(ctypes.c_ulong(n) for n in (1, 0, 0, 0)))
    if libc.prctl(22, ctypes.c_ulong(2), filters, ctypes.c_ulong(0), ctypes.c_ulong(0)):
        raise OSError(ctypes.get_errno(), "no filter can be set here")
    os.execvp(sys.argv[end + 1], sys.argv[end + 1 :])


if __name__ == "__main__":
    main()
