"""``python -m benchmarks.search`` is ``python -m benchmarks search``."""

from __future__ import annotations

from benchmarks.search.command import command

if __name__ == "__main__":
    command()
