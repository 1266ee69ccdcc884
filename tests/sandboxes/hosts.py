"""Host applications that use the wasm sandbox, each in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from textwrap import dedent

import pytest

from tests.sandboxes.hostile.driven import ROOT
from tests.sandboxes.hostile.scripts import scripts

HOST = """
import asyncio, os, signal, sys, threading
from sandboxes import Call, Limits
from sandboxes.wasm.sandbox import WasmConfig, WasmSandbox
from tests.scripts import python

async def evaluate(source, output, jobs=1, timeout=5.0, ready=lambda: None):
    async with WasmSandbox(WasmConfig(jobs=jobs)) as sandbox:
        program = await sandbox.load(python(source), Limits(memory=64 << 20))
        ready()
        call = Call(id=0, arguments={"output": output, "reference": ""})
        return [e.status async for e in program.run([call], Limits(timeout=timeout, memory=64 << 20))]
"""
"""A host application, in a few lines."""


def attack(script: str) -> str:
    """A hostile script by itself."""
    return next(s.source for s in scripts() if s.id == script) + "\nevaluate = attack\n"


def start(code: str, *arguments: str) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", HOST + dedent(code), *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, text=True, stdout=pipe, stderr=pipe, preexec_fn=_interruptible)


def _interruptible() -> None:
    """Where the tests run in a shell's background they ignore SIGINT, and so would all that they start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def said_by(code: str, *arguments: str) -> str:
    """What the host application printed; it must have ended by itself, and well."""
    process = start(code, *arguments)
    try:
        out, err = process.communicate(timeout=40)
    except subprocess.TimeoutExpired:
        process.kill()
        pytest.fail(f"the host hangs: {process.communicate()}")
    assert process.returncode == 0, err[-2000:]
    return out
