"""What on this machine would keep evalcell from working, and what to do about it."""

from runner.cli.doctor.diagnosis import Diagnosis, diagnose
from runner.cli.doctor.finding import Finding

__all__ = ["Diagnosis", "Finding", "diagnose"]
