"""Builds the page's scripts and styles. No part of the wheel."""
