"""SandboxFusion's `run_code`: programs with their standard input and files, as trainers send them."""

from __future__ import annotations

from functools import cache
from math import ceil
from time import monotonic
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from runner.core.text import whole, whole_json
from runner.server.service.errors import ServiceError
from runner.server.service.protocols.calls import ScriptFault, call_wrapper, persist, wrapper_text, wrapping
from runner.server.service.service import Service
from runner.server.service.settings import ServiceSettings
from runner.server.service.types import EvaluateRequest
from sandboxes.base import MB, Limits, SandboxConfig
from templates.assembly import assemble

ANSWER_SECONDS = 25.0
"""verl waits for thirty, and takes what comes later for a wrong program."""
GRACE_SECONDS = 3.0
"""Beyond a program's own time: to start it, and to end it."""
MEMORY = 1024 * MB
"""Of a program whose request bounds none."""
_OWN_MEMORY = 64 * MB
"""Of the interpreter around the program."""
_KILLED = -9
_FORGED = "the program changed what its end is told by"
_SERVED = ("python", "nodejs", "typescript")

ProgramLanguage = (
    Literal["python", "cpp", "nodejs", "go", "go_test", "java", "php", "csharp", "bash", "typescript", "sql", "rust"]
    | Literal["cuda", "lua", "R", "perl", "D_ut", "ruby", "scala", "julia", "pytest", "junit", "kotlin_script", "jest"]
    | Literal["verilog", "python_gpu", "lean", "swift", "racket"]
)
"""The languages that SandboxFusion has; a request in another one is wrong."""


class ProgramRequest(BaseModel):
    """A program to run."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    code: str
    language: ProgramLanguage
    stdin: str | None = None
    compile_timeout: float = 10
    run_timeout: float = Field(default=10, gt=0, allow_inf_nan=False)
    memory_limit_MB: int = -1
    files: dict[str, str | None] = Field(default_factory=dict, max_length=100)
    fetch_files: list[str] = Field(default_factory=list, max_length=100)


class ProgramEnd(BaseModel):
    """How a program ended."""

    status: Literal["Finished", "Error", "TimeLimitExceeded"]
    execution_time: float | None = None
    return_code: int | None = None
    stdout: str | None = None
    stderr: str | None = None


class ProgramReply(BaseModel):
    """What became of a program."""

    status: Literal["Success", "Failed", "SandboxError"]
    message: str = ""
    compile_result: ProgramEnd | None = None
    run_result: ProgramEnd | None = None
    executor_pod_name: str | None = None
    files: dict[str, str] = Field(default_factory=dict)


async def run_program(service: Service, request: ProgramRequest) -> ProgramReply:
    """
    Run a program once. What is lost is run again while there is time.

    Raises:
        ServiceError: There is no answer in time, or for what this server does not allow.
    """
    if request.language not in _SERVED:
        message = f"the language {request.language} is not served here; send {', '.join(_SERVED)}"
        return ProgramReply(status="SandboxError", message=message)
    seconds = min(request.run_timeout, service.settings.timeout - GRACE_SECONDS)
    end = monotonic() + max(ANSWER_SECONDS, seconds + GRACE_SECONDS)
    asked = _asked(request, seconds, service.settings)

    async def attempt() -> Any:
        async with service.places:
            # Most end long before their limit. One that does not, for what it waited, is not told as too late.
            if end - monotonic() < min(seconds, GRACE_SECONDS):
                raise ServiceError("busy", "too many programs are waiting; send it again")
            return await call_wrapper(service, asked)

    try:
        found = whole_json(await persist(end - monotonic(), attempt))
    except ScriptFault as fault:
        return _ended(fault, request)
    except RecursionError:
        return _ended(ScriptFault("crash", _FORGED), request)
    try:
        run = ProgramEnd(
            status="TimeLimitExceeded" if found["late"] else "Finished",
            execution_time=found["seconds"],
            return_code=None if found["late"] else found["code"],
            stdout=found["stdout"],
            stderr=found["stderr"],
        )
        good = run.status == "Finished" and run.return_code == 0
        return ProgramReply(status="Success" if good else "Failed", run_result=run, files=found["files"])
    except (KeyError, TypeError, ValueError):
        return _ended(ScriptFault("crash", _FORGED), request)


def _asked(request: ProgramRequest, seconds: float, own: ServiceSettings) -> EvaluateRequest:
    """Each request is a batch of one, which begins where nobody's program has run."""
    memory = MEMORY if request.memory_limit_MB <= 0 else request.memory_limit_MB * MB
    row = {"code": request.code, "stdin": request.stdin, "files": request.files, "fetch": request.fetch_files}
    python = request.language == "python"
    # In steps, as a program is loaded for each set of limits. A program in a Worker is ended by the sandbox alone.
    limits = Limits(
        timeout=min(own.timeout, ceil(seconds / 10) * 10 + GRACE_SECONDS) if python else seconds,
        memory=min(own.memory, ceil((memory + _OWN_MEMORY) / (256 * MB)) * 256 * MB),
        output=4 * MB,
        result=8 * MB,
    )
    if python:
        return EvaluateRequest(
            source=wrapping(wrapper_text("program.py"), "code", "stdin", "files", "fetch", "seconds"),
            dialect="native",
            rows=[{**row, "seconds": seconds}],
            limits=limits,
            sandbox=SandboxConfig(backend="process", isolation="batch"),
        )
    return EvaluateRequest(
        source=_javascript(),
        language="typescript",
        dialect="native",
        rows=[{"asked": row | {"typed": request.language == "typescript"}}],
        limits=limits,
        sandbox=SandboxConfig(backend="deno", isolation="batch"),
    )


@cache
def _javascript() -> str:
    return assemble(wrapper_text("program.ts"), "typescript")


def _ended(fault: ScriptFault, request: ProgramRequest) -> ProgramReply:
    """What becomes of a program that was ended with what runs it, by the limits of the sandbox."""
    if fault.kind == "timeout":
        run = ProgramEnd(
            status="TimeLimitExceeded", execution_time=fault.seconds, stdout=whole(fault.stdout), stderr=""
        )
    else:
        run = ProgramEnd(status="Finished", return_code=_KILLED, stdout=whole(fault.stdout), stderr=whole(str(fault)))
    return ProgramReply(status="Failed", run_result=run)
