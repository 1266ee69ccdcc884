"""Machines at Daytona."""
