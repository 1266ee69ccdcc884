"""
Make forks of this process cheap after it has imported a large library.

A fork copies an entry for each 4 KB page that the process has written, and its end goes through all of them again: two
thirds of the cost of an empty fork once scikit-learn is imported. Linux 6.1 can move a process's memory into 2 MB pages
on demand, of which there are five hundred times fewer. What a fork then writes is still copied in 4 KB.
"""

from __future__ import annotations

import ctypes
import gc

_COLLAPSE = 25  # MADV_COLLAPSE
_LARGE = 21  # 2 MB, as a power of two


def collapse() -> None:
    """Move memory into large pages as far as the kernel can: it needs free ones, and may be configured not to."""
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    gc.unfreeze()
    # The addresses of objects show where the memory is, as there may be no /proc.
    places = {id(found) >> _LARGE for found in gc.get_objects()}
    gc.freeze()
    for place in places:
        advise(place << _LARGE, 1 << _LARGE, _COLLAPSE)
