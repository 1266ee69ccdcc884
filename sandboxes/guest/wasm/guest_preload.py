"""
The standard library inside the image, since there is no file system later.

What evaluators use is imported while the image is built. The rest is packed: its code is compressed, and unpacked when
a script imports it, which costs that script some milliseconds while it loads, and other scripts nothing.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import marshal
import pkgutil
import sys
import sysconfig
import types
import zlib

TYPE_CHECKING = False  # as typing's
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

PRELOADED_MODULES = """
__future__ abc array ast base64 binascii bisect builtins calendar cmath codecs collections collections.abc
contextlib contextvars copy copyreg csv dataclasses datetime decimal difflib encodings encodings.aliases
encodings.ascii encodings.idna encodings.latin_1 encodings.utf_16 encodings.utf_8 enum errno fnmatch fractions
functools gc genericpath graphlib hashlib heapq hmac html html.entities html.parser importlib importlib.machinery
importlib.util inspect io ipaddress itertools json keyword linecache locale marshal math numbers operator os os.path
pathlib pickle posixpath pprint queue random re reprlib secrets select selectors shlex signal socket stat statistics
string struct sys textwrap threading time token tokenize tomllib traceback types typing unicodedata urllib
urllib.parse uuid warnings weakref xml.etree.ElementTree zlib _strptime _pylong
"""

PACKED_MODULES = """
guest_loop _aix_support _colorize _compat_pickle _markupbase _opcode_metadata _py_abc _py_warnings _pydatetime
_pydecimal _pyio _pyrepl _sitebuiltins _weakrefset annotationlib argparse asyncio bdb cmd code codeop colorsys
compileall concurrent configparser copy csv ctypes dis doctest email encodings filecmp fileinput ftplib getopt
getpass gettext glob gzip http imaplib importlib json logging mailbox mimetypes netrc ntpath nturl2path opcode
optparse pathlib pdb pickletools pkgutil platform plistlib poplib profile pstats py_compile pyclbr pydoc pydoc_data
quopri re rlcompleter runpy sched selectors shelve shutil smtplib socketserver sqlite3 ssl string stringprep
subprocess symtable tabnanny tarfile tempfile this timeit trace tracemalloc unittest urllib uuid wave wsgiref xml
xmlrpc zipapp zipfile zipimport zoneinfo compression dbm bz2 lzma
"""


class PackedFinder:
    """Find and load the packed modules."""

    def __init__(self) -> None:
        self.modules: dict[str, tuple[bool, bytes]] = {}

    def add(self, name: str, path: Sequence[str] | None = None) -> None:
        """Pack a module, and all modules of a package, without running them. `path` is the folder of its package."""
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or not isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            return
        inside = spec.submodule_search_locations
        self.modules[name] = (inside is not None, zlib.compress(marshal.dumps(spec.loader.get_code(name)), 9))
        for inner in pkgutil.iter_modules(inside or ()):
            if inner.name not in ("__main__", "test", "tests"):
                self.add(f"{name}.{inner.name}", inside)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self.modules:
            return None
        return importlib.machinery.ModuleSpec(name, self, origin="packed", is_package=self.modules[name][0])

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(marshal.loads(zlib.decompress(self.modules[module.__name__][1])), module.__dict__)
        if module.__name__ == "asyncio":
            import guest_loop  # noqa: F401


_packed = PackedFinder()

for _name in PACKED_MODULES.split():
    _packed.add(_name)
for _name in PRELOADED_MODULES.split():
    importlib.import_module(_name)
# The build leaves out the file that describes how this CPython was built; zoneinfo only requires some module.
_built = sys.modules[sysconfig._get_sysconfigdata_name()] = types.ModuleType("_sysconfigdata")
_built.build_time_vars = {}
for _name in sys.modules:
    _packed.modules.pop(_name, None)


def close_file_system() -> None:
    """Make an unknown import an ordinary ModuleNotFoundError: looking for a file would end the call with a trap."""
    kept = [finder for finder in sys.meta_path if getattr(finder, "__name__", "") != "PathFinder"]
    sys.meta_path[:] = [*kept, _packed]
    sys.path[:] = []
    sys.path_hooks[:] = []
    sys.path_importer_cache.clear()
