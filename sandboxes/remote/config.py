"""The settings of remote sandboxes."""

from __future__ import annotations

from pydantic import Field

from sandboxes.base import MB, SandboxConfig
from sandboxes.remote.retry import Pauses


class RemoteConfig(SandboxConfig):
    """Settings of remote sandboxes only. Times are in seconds."""

    lifetime: int = Field(default=300, ge=60, le=3600)
    """How long a machine lives unless it is extended, which happens while it is in use, if the provider can."""
    start_timeout: float = Field(default=120.0, gt=0)
    """For one attempt to create a machine."""
    wait: float = Field(default=600.0, ge=0)
    """How long to wait for a first machine while the account is full."""
    slack: float = Field(default=15.0, gt=0)
    """How long a machine may be silent beyond what the limits of a call explain."""
    close_timeout: float = Field(default=20.0, gt=0)
    """For ending all machines."""
    batch: int = Field(default=256, ge=1, le=1024)
    """Most rows sent at once."""
    machine_memory: int = Field(default=1024 * MB, gt=0)
    """Bytes of memory to order a machine with, if the provider offers a choice."""
    pauses: Pauses = Pauses()
