"""Starts Pythons of our own that talk to this process over their standard input and output."""

from __future__ import annotations

import sys
from pathlib import Path

_FOLDER = str(Path(__file__).parents[2])

_FIRST = """\
import os, sys
requests, replies, nothing = os.dup(0), os.dup(1), os.open(os.devnull, os.O_RDONLY)
os.dup2(nothing, 0)
os.dup2(2, 1)
os.close(nothing)
import site
site.main()
"""

_MODULE = """\
sys.path += [folder for folder in sys.argv[1:2] if folder not in sys.path]
from MODULE import main
main(requests, replies, *sys.argv[2:])
"""


def command_of(program: str) -> list[str]:
    """
    Return what starts a program whose names `requests` and `replies` are the descriptors of its standard input and
    output.

    They are moved there before any line of others runs: a `sitecustomize` or a `.pth` file, which `-S` keeps until
    then, may print, read and start processes. Standard input is empty by then, and what is printed goes to standard
    error. `-P`: a module in the folder that evalcell is called from must not be taken for one of ours.
    """
    return [sys.executable, "-P", "-S", "-c", _FIRST + program]


def module_command(module: str, *arguments: str) -> list[str]:
    """Return what starts a process that calls the module's `main` with these two descriptors and the arguments."""
    return [*command_of(_MODULE.replace("MODULE", module)), _FOLDER, *arguments]
