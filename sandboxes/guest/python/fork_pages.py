"""
Makes a fork of this process cheap, where it holds a large library.

A fork copies an entry for each 4 KB page that the process has written, and its end goes through all of them again: two
thirds of what an empty fork costs once scikit-learn is imported. Linux 6.1 can put a process's memory into 2 MB pages
on demand, of which there are five hundred times fewer. What a fork then writes is still copied in 4 KB.
"""

from __future__ import annotations

import ctypes
import gc

_COLLAPSE = 25  # MADV_COLLAPSE
_LARGE = 21  # 2 MB, as a power of two


def collapse() -> None:
    """As far as the kernel can and wants to: it needs free large pages, and may be told to use none."""
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    gc.unfreeze()
    # Where the objects are tells where the memory is; there may be no /proc to ask.
    places = {id(found) >> _LARGE for found in gc.get_objects()}
    gc.freeze()
    for place in places:
        advise(place << _LARGE, 1 << _LARGE, _COLLAPSE)
