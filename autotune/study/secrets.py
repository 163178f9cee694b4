"""API keys: from the environment or a file, never from a command line, never kept."""

from __future__ import annotations

import os
from pathlib import Path

from autotune.errors import ConfigError

VARIABLE = "AUTOTUNE_API_KEY"


def api_key(path: str | None) -> str | None:
    """The key in the first line of a file, else in ``AUTOTUNE_API_KEY``; None where neither is.

    Raises:
        ConfigError: the file cannot be read, or holds no key that fits into a header.
    """
    if path is None:
        where, key = VARIABLE, os.environ.get(VARIABLE, "")
        if not key:
            return None
    else:
        where, key = path, _first_line(Path(path))
    key = key.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(f"{where} holds no API key: one printable word is expected")
    return key


def _first_line(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigError(f"cannot read the API key from {path}: {why}") from None
    return lines[0] if lines else ""
