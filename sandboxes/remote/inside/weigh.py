"""How much memory a box holds, on kernels that tell less too."""

import tree


class Scale:
    """Of the process that holds the script, and all below it."""

    def __init__(self, inner):
        self._inner = inner
        self._name = "RssAnon" if tree.field(inner, "RssAnon") else "VmRSS"  # gVisor knows the latter alone
        self._exact = self._name == "RssAnon" and _can_read(f"/proc/{inner}/smaps_rollup")

    def processes(self):
        return [self._inner, *tree.descendants(self._inner)]

    def bytes(self, processes, limit):
        """
        Bytes that they hold together.

        Where the kernel does not tell which pages they share, what each holds beyond the first counts.
        """
        if self._exact:
            return tree.memory(processes, limit)
        first, *others = (tree.field(pid, self._name) for pid in processes)
        return first + sum(max(0, held - first) for held in others)

    def start(self):
        """Bytes that a fork of the first process has reserved, and those that it holds."""
        return tree.fields(self._inner, ("VmData", self._name))

    @property
    def works(self):
        return tree.field(self._inner, self._name) > 0


def _can_read(path):
    try:
        with open(path):
            return True
    except OSError:
        return False
