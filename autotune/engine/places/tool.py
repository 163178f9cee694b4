"""A small tool of this machine, asked and waited for: ``docker``, ``ssh``."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence


def ask(command: Sequence[str], limit_s: float, *, unanswered: int = 1) -> tuple[int, str]:
    """Exit status and all that was said; ``unanswered`` where it did not run or end in time."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return unanswered, f"no answer in {limit_s:g} s"
    except OSError as error:
        return unanswered, f"{command[0]}: {error.strerror}"
    return done.returncode, done.stdout
