"""Readers of workload files: one per format, each a generator in bounded memory."""

from __future__ import annotations

from autotune.workload.readers.file import SessionFile
from autotune.workload.readers.formats import FORMATS, Format

__all__ = ["FORMATS", "Format", "SessionFile"]
